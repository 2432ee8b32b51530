package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// makePrivate creates a database file that only its owner can access, regardless of the
// umask, or restricts the mode of an existing one. SQLite creates its other files with the
// same mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		info, err := os.Stat(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(path+suffix, 0o600)
		}
		// A file of another owner may still be usable, and some volumes do not support modes.
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("restricting access to the database: %w", err)
		}
	}
	return nil
}
