// Package backup backs up the data of a single-process slipwayd to a folder while the server
// runs, and restores it to an empty data_dir. A backup contains the database, the embedded
// image store, the master key and the first user's access token. It does not contain data
// that is recreated if missing: channel indexes, caches, and the bus, whose jobs are in the
// database.
//
// The database is copied first. An image that is pushed after that has no record in the
// backup and is garbage collected after a restore. An image that is deleted meanwhile is
// rebuilt when it is pulled. Blobs never change, so that another backup to the same folder
// only copies new ones.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"slipway.dev/services/internal/config"
)

// Options are the parameters of Create and Restore.
type Options struct {
	// Config holds the settings of the server: its data_dir, database_url, master_key_file and
	// build_repository.
	Config config.Config
	// Dir is the folder of the backup.
	Dir string
	// WithoutMasterKey excludes the master key, for sites that store it elsewhere.
	WithoutMasterKey bool
	// Version is the version of this program.
	Version string
	// Progress receives a line for each step.
	Progress io.Writer
}

// Names in the folder of a backup. The files have the same names in data_dir.
const (
	databaseFile  = "slipway.db"
	masterKeyFile = "master-key"
	tokenFile     = "admin-token"
	signingFile   = "signing-key"
	imagesDir     = "images"
	summaryFile   = "backup.json"
)

// format is the version of the layout of a backup.
const format = 1

// A summary is the content of backup.json, which is written last, when the backup is
// complete.
type summary struct {
	// Format is the version of the layout of the backup.
	Format int `json:"format"`
	// Program is the version of slipwayd that wrote it.
	Program string    `json:"program"`
	Created time.Time `json:"created"`
	// Files holds all files except blobs, by path with forward slashes.
	Files map[string]entry `json:"files"`
	// Blobs and BlobBytes are the number and the total size of the blobs in the image store.
	// Blobs are verified by their file name, which is the digest.
	Blobs     int   `json:"blobs"`
	BlobBytes int64 `json:"blob_bytes"`
}

// An entry is the size of a file in bytes and its SHA-256 in hex.
type entry struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// readSummary reads the summary of a backup. It returns an error if the backup is incomplete
// or has another format.
func readSummary(dir string) (s summary, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, summaryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s is not a complete backup: it has no %s. If a backup was interrupted, run it again", dir, summaryFile)
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", summaryFile, err)
	}
	if s.Format != format {
		return s, fmt.Errorf("the backup has format %d, but this program only reads format %d; restore it with slipwayd %s", s.Format, format, s.Program)
	}
	return s, nil
}

// copyFile copies a file and returns its size and digest. The target is created atomically.
func copyFile(from, to string) (e entry, err error) {
	in, err := os.Open(from)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return e, err
	}
	out, err := os.CreateTemp(filepath.Dir(to), ".copy-*")
	if err != nil {
		return e, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return e, err
	}
	if err := os.Rename(out.Name(), to); err != nil {
		return e, err
	}
	return entry{n, hex.EncodeToString(sum.Sum(nil))}, nil
}

// blobs returns the sizes of the blobs of an OCI layout by their path in it, without those that the
// store composes of others.
func blobs(layout string) (map[string]int64, error) {
	out := map[string]int64{}
	err := filepath.WalkDir(filepath.Join(layout, "blobs"), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && !isDigest(e.Name()) {
			return nil // deleted meanwhile, or still being written
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(layout, path)
		out[name] = info.Size()
		return err
	})
	return out, err
}

// isDigest reports whether a file name is a SHA-256 digest in hex.
func isDigest(name string) bool {
	raw, err := hex.DecodeString(name)
	return err == nil && len(raw) == sha256.Size
}
