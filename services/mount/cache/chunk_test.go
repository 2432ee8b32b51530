package cache_test

import (
	"os"
	"testing"

	"slipway.dev/services/mount/cache"
)

// TestNamesAreOfTheirUser checks that names of images, which may have tokens, are not readable for other users, and that the records
// of used environments, which are, have no tokens.
func TestNamesAreOfTheirUser(t *testing.T) {
	t.Parallel()
	c := cache.Open(t.TempDir())
	n := cache.Name{Name: "tool", Image: "slipway.example.org/wt/secret123/lib/tool:1", Environment: digestOf([]byte("x"))}
	c.Remember("key", n)
	c.Touch(n.Environment, n, n.Time)
	for _, path := range files(t, c.Dir()+"/names/*") {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if known, ok := c.Resolved("key"); !ok || known.Image != n.Image {
		t.Errorf("%+v, %v", known, ok)
	}
	used, err := c.Used()
	if err != nil || len(used) != 1 || used[0].Name.Image != "slipway.example.org/wt/…/lib/tool:1" {
		t.Errorf("%+v, %v", used, err)
	}
}
