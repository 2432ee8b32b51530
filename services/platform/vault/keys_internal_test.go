package vault

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestKeysKeepTheirOwner checks that a server that runs as another user can read the file after
// root has rotated the key.
func TestKeysKeepTheirOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	path := filepath.Join(t.TempDir(), "master-key")
	if err := writeKeys(path, newKey()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := writeKeys(path, newKey(), newKey()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != nobody || owner.Gid != nobody || info.Mode().Perm() != 0o600 {
		t.Errorf("the file belongs to %d:%d with mode %v", owner.Uid, owner.Gid, info.Mode())
	}
}
