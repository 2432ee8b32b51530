package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// private makes a database file that its owner alone can read, whatever the umask,
// or makes one that is there so. The files beside it, which SQLite makes, have its
// mode.
func private(path string) error {
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
		// Whose file it is not may use it all the same, and some volumes have no modes.
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("keeping the database from others: %w", err)
		}
	}
	return nil
}
