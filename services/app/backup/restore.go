package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"slipway.dev/services/app"
	"slipway.dev/services/registry/store"
)

// Restore copies a backup to an empty data_dir and verifies the digest of every file. The
// database is copied last, so that Restore can be repeated after an error.
func Restore(ctx context.Context, o Options) error {
	s, err := readSummary(o.Dir)
	if err != nil {
		return err
	}
	to := o.Config.DataDir
	if url := app.DatabaseURL(o.Config); url != "sqlite:"+filepath.Join(to, databaseFile) {
		return errors.New("a backup is restored to data_dir: unset database_url. To continue with PostgreSQL, run `slipwayd migrate --from` afterwards")
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := checkEmpty(to); err != nil {
		return err
	}
	n, err := restoreBlobs(ctx, o.Dir, to)
	if err != nil {
		return err
	}
	if n != s.Blobs {
		return fmt.Errorf("the backup is damaged: it has %d blobs, but %s lists %d", n, summaryFile, s.Blobs)
	}
	fmt.Fprintf(o.Progress, "Restored %d blobs of images, %.1f MB\n", s.Blobs, float64(s.BlobBytes)/1e6)
	names := slices.SortedFunc(maps.Keys(s.Files), func(a, b string) int {
		return strings.Compare(order(a), order(b))
	})
	for _, name := range names {
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return fmt.Errorf("the backup is damaged: %s names the file %q", summaryFile, name)
		}
		if err := restoreFile(filepath.Join(o.Dir, local), filepath.Join(to, local), s.Files[name]); err != nil {
			return err
		}
	}
	repositories, err := store.Repositories(to)
	for _, name := range repositories {
		err = errors.Join(err, store.LinkCompositions(filepath.Join(to, imagesDir, filepath.FromSlash(name))))
	}
	if err != nil {
		return err
	}
	if err := giveToOwner(to); err != nil {
		return err
	}
	if _, ok := s.Files[masterKeyFile]; !ok {
		fmt.Fprintf(o.Progress, "The backup has no master key: put the server's at %s before you start it\n", app.MasterKeyFile(o.Config))
	}
	fmt.Fprintf(o.Progress, "Restored the backup of %s to %s; start slipwayd with the same settings\n", s.Created.Format("2006-01-02 15:04 UTC"), to)
	return nil
}

// giveToOwner gives everything in a folder to the owner of the folder, so that a server that runs
// as another user than the command can use it.
func giveToOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}

// checkEmpty checks that a data_dir is empty except for files of an interrupted restore, the
// marker that remains after `rm -r data/*`, and the folder that every ext4 volume has. In
// particular, it must not have the journal of another database, which SQLite would apply.
func checkEmpty(dir string) error {
	restorable := []string{imagesDir, masterKeyFile, signingFile, tokenFile, ".slipway-data", "lost+found"}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !slices.Contains(restorable, e.Name()) && !strings.HasPrefix(e.Name(), ".copy-") {
			return fmt.Errorf("%s is not empty (it has %s): stop the slipwayd that uses it, move the folder away, and run the command again", dir, e.Name())
		}
	}
	return err
}

// order returns a sort key that puts the database after all other files.
func order(name string) string {
	if name == databaseFile {
		return "\xff"
	}
	return name
}

// restoreFile copies a file and verifies its size and digest.
func restoreFile(from, to string, want entry) error {
	got, err := copyFile(from, to)
	if err == nil && got != want {
		err = errors.Join(fmt.Errorf("the backup is damaged: the digest of %s does not match %s", from, summaryFile), os.Remove(to))
	}
	return err
}

// hasDigest reports whether the name of a blob matches its digest.
func hasDigest(path string) (_ bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return false, err
	}
	return hex.EncodeToString(sum.Sum(nil)) == filepath.Base(path), nil
}

// restoreBlobs copies all blobs of the image store that the target lacks, and returns their
// total number.
func restoreBlobs(ctx context.Context, from, to string) (n int, err error) {
	names, err := store.Repositories(from)
	for _, name := range names {
		path := filepath.Join(imagesDir, filepath.FromSlash(name))
		held, err := blobs(filepath.Join(from, path))
		if err != nil {
			return 0, err
		}
		for blob, size := range held {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := restoreBlob(filepath.Join(from, path, blob), filepath.Join(to, path, blob), size); err != nil {
				return 0, err
			}
		}
		n += len(held)
	}
	return n, err
}

// restoreBlob copies a blob, unless an interrupted restore has already copied it.
func restoreBlob(from, to string, size int64) error {
	same, err := hasDigest(to)
	if same || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return restoreFile(from, to, entry{size, filepath.Base(to)})
}
