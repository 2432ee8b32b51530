package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/registry/store"
)

// Create writes a backup while the server may be running. After an error, calling it again
// copies what is missing. Until Create has returned, the folder has no complete backup.
func Create(ctx context.Context, o Options) (err error) {
	database, err := databasePath(o.Config)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(o.Dir, 0o700), os.Chmod(o.Dir, 0o700)); err != nil { //nolint:gosec // a folder needs x
		return err
	}
	unlock, err := lock(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := os.Remove(filepath.Join(o.Dir, summaryFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s := summary{Format: format, Program: o.Version, Created: time.Now().UTC().Truncate(time.Second), Files: map[string]entry{}}
	snapshot := filepath.Join(o.Dir, "."+databaseFile+".new")
	if err := snapshotTo(ctx, database, snapshot); err != nil {
		return err
	}
	if s.Files[databaseFile], err = copyFile(snapshot, filepath.Join(o.Dir, databaseFile)); err != nil {
		return err
	}
	if err := os.Remove(snapshot); err != nil {
		return err
	}
	fmt.Fprintf(o.Progress, "Copied the database, %.1f MB\n", float64(s.Files[databaseFile].Size)/1e6)
	if err := o.copyKeys(&s); err != nil {
		return err
	}
	if o.Config.BuildRepository == "" {
		if err := o.copyImages(ctx, &s); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(o.Progress, "The images in %s are not part of the backup\n", o.Config.BuildRepository)
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(err, os.WriteFile(filepath.Join(o.Dir, summaryFile), append(raw, '\n'), 0o600))
}

// lock prevents concurrent backups to one folder.
func lock(dir string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another backup to %s is running", dir), f.Close())
	}
	// Closing alone would leave it locked while a child process is being started, which has the
	// descriptor until then.
	return func() error { return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()) }, nil
}

// databasePath returns the path of the SQLite database.
func databasePath(cfg config.Config) (string, error) {
	url := app.DatabaseURL(cfg)
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		return "", errors.New("the server has a PostgreSQL database: back it up with pg_dump -Fc, and build_repository with the registry's own means (docs/operate/upgrade.md)")
	}
	if err := app.CheckMoved(cfg); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no database at %s: set data_dir to the directory of the server", path)
	}
	return path, nil
}

// snapshotTo copies a SQLite database that another process may be writing to.
func snapshotTo(ctx context.Context, from, to string) (err error) {
	// SQLite keeps the mode of an existing file.
	if err := os.WriteFile(to, nil, 0o600); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(to)
		}
	}()
	db, err := sqldb.Open(ctx, "sqlite:"+from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, to); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	return nil
}

// copyKeys copies the access token, the master key and the key that signs images. It omits keys
// that are outside of data_dir or that the options exclude.
func (o Options) copyKeys(s *summary) error {
	files := []string{tokenFile}
	switch key := app.MasterKeyFile(o.Config); {
	case o.Config.MasterKeyFile != "" || o.WithoutMasterKey:
		fmt.Fprintf(o.Progress, "The master key is not part of the backup: keep a copy of %s, which is required to decrypt credentials\n", key)
		if err := os.Remove(filepath.Join(o.Dir, masterKeyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	default:
		files = append(files, masterKeyFile)
		fmt.Fprintln(o.Progress, "The backup contains the master key, which decrypts credentials: restrict access to the backup")
	}
	if o.Config.SigningKeyFile == "" && !o.WithoutMasterKey {
		files = append(files, signingFile)
	} else if err := os.Remove(filepath.Join(o.Dir, signingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range files {
		e, err := copyFile(filepath.Join(o.Config.DataDir, name), filepath.Join(o.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s.Files[name] = e
	}
	return nil
}

// copyImages copies the embedded image store, and deletes images that the store no longer has
// from the backup.
func (o Options) copyImages(ctx context.Context, s *summary) error {
	names, err := store.Repositories(o.Config.DataDir)
	if err != nil {
		return err
	}
	copied := 0
	for _, name := range names {
		n, err := o.copyRepository(ctx, s, name)
		if err != nil {
			return err
		}
		copied += n
	}
	old, err := store.Repositories(o.Dir)
	for _, name := range old {
		if !slices.Contains(names, name) && err == nil {
			err = os.RemoveAll(filepath.Join(o.Dir, imagesDir, filepath.FromSlash(name)))
		}
	}
	fmt.Fprintf(o.Progress, "The image store has %d blobs, %.1f MB; copied %d of them\n", s.Blobs, float64(s.BlobBytes)/1e6, copied)
	return err
}

// copyRepository copies one repository of the store and returns the number of copied blobs. It
// retries if blobs were deleted meanwhile, so that no image in the backup lacks a layer.
func (o Options) copyRepository(ctx context.Context, s *summary, name string) (copied int, err error) {
	const attempts = 10
	path := filepath.Join(imagesDir, filepath.FromSlash(name))
	from, to := filepath.Join(o.Config.DataDir, path), filepath.Join(o.Dir, path)
	for range attempts {
		before, err := blobs(from)
		if err != nil {
			return 0, err
		}
		// Every blob that the index lists is in before, or was added since and is copied below.
		for _, file := range []string{"index.json", "oci-layout"} {
			e, err := copyFile(filepath.Join(from, file), filepath.Join(to, file))
			if err != nil {
				return 0, err
			}
			s.Files[imagesDir+"/"+name+"/"+file] = e
		}
		// A composed blob is copied before its parts, which exist longer.
		lists, err := copyCompositions(from, to)
		if err != nil {
			return 0, err
		}
		held, n, err := copyBlobs(ctx, from, to)
		if err != nil {
			return 0, err
		}
		copied += n
		if slices.ContainsFunc(slices.Collect(maps.Keys(before)), func(blob string) bool { _, ok := held[blob]; return !ok }) {
			continue
		}
		for file, e := range lists {
			s.Files[imagesDir+"/"+name+"/"+file] = e
		}
		s.Blobs += len(held)
		for _, size := range held {
			s.BlobBytes += size
		}
		return copied, nil
	}
	return 0, fmt.Errorf("images of the repository %s were deleted during each of %d attempts to copy it; try again", name, attempts)
}

// copyCompositions copies the lists of pieces of composed blobs, and deletes those that the source lacks
// from the target.
func copyCompositions(from, to string) (map[string]entry, error) {
	out := map[string]entry{}
	for _, path := range store.Compositions(from) {
		e, err := copyFile(filepath.Join(from, path), filepath.Join(to, path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[filepath.ToSlash(path)] = e
	}
	for _, path := range store.Compositions(to) {
		if _, ok := out[filepath.ToSlash(path)]; !ok {
			if err := os.Remove(filepath.Join(to, path)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// copyBlobs copies the blobs of one OCI layout that the target lacks, and deletes blobs from
// the target that the source lacks. It returns the sizes of all blobs of the target and the
// number of copied blobs.
func copyBlobs(ctx context.Context, from, to string) (held map[string]int64, copied int, err error) {
	held, err = blobs(from)
	if err != nil {
		return nil, 0, err
	}
	there, err := blobs(to)
	if err != nil {
		return nil, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if size, ok := there[name]; ok && size == held[name] {
			continue
		}
		e, err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
			delete(held, name)
			continue
		case err != nil:
			return nil, 0, err
		case e.SHA256 != filepath.Base(name):
			return nil, 0, fmt.Errorf("the image store is damaged: the blob %s has the digest %s. Stop the server and remove the repository's folder %s; its images are rebuilt when they are pulled", filepath.Join(from, name), e.SHA256, from)
		}
		held[name], copied = e.Size, copied+1
	}
	for name := range there {
		if _, ok := held[name]; !ok {
			err = errors.Join(err, os.Remove(filepath.Join(to, name)))
		}
	}
	return held, copied, err
}
