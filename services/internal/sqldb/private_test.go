package sqldb_test

import (
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/services/internal/sqldb"
)

// TestFileMode verifies that the files are private although the folder and the umask
// allow more, also for an existing file with another mode.
func TestFileMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "slipway.db")
	for round := range 2 {
		db, err := sqldb.Open(t.Context(), "sqlite:"+path)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{`CREATE TABLE IF NOT EXISTS x (y text)`, `INSERT INTO x VALUES ('z')`} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if mode := info.Mode().Perm(); mode != 0o600 {
				t.Errorf("round %d: %s has the mode %o", round, name, mode)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
