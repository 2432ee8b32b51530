package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/mounttest"
)

// TestFirstPaths checks that the files of a record are printed for the name and the digest of an environment in the cache.
func TestFirstPaths(t *testing.T) {
	t.Parallel()
	l := mounttest.Write(t, t.TempDir(), nil, mounttest.Pack(t, mounttest.Files{"bin/tool": "a tool", "lib/other": "->../bin/tool"}))
	c := cache.Open(t.TempDir())
	read := func(digest string) []byte {
		raw, err := os.ReadFile(filepath.Join(l.Folder, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:")))
		if err != nil {
			t.Fatal(err)
		}
		c.AddDocument(digest, raw)
		return raw
	}
	a, err := environment.Parse(read(l.Environment.String()))
	if err != nil {
		t.Fatal(err)
	}
	read(a.Config.Digest.String())
	read(a.Index.Digest.String())
	const image = "registry.example.org/team/tools:2"
	c.Touch(l.Environment.String(), cache.Name{Name: "tools", Image: image, Environment: l.Environment.String()}, time.Now())
	if _, err := firstPaths(c, "tools"); err == nil || !strings.Contains(err.Error(), "slipway run --trace") {
		t.Errorf("without a record: %v", err)
	}
	c.AddFirsts(a.Index.Digest.String(), []cache.First{{}})
	for _, name := range []string{"tools", image, l.Environment.String()} {
		if got, err := firstPaths(c, name); err != nil || !slices.Equal(got, []string{"/opt/conda/bin/tool"}) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := firstPaths(c, "other"); err == nil || !strings.Contains(err.Error(), "slipway cache ls") {
		t.Errorf("an unknown name: %v", err)
	}
}
