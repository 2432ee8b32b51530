package conda

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/sif/parts"
	"slipway.dev/services/builder/squashfs"
)

// TestPruneParts checks that a worker that makes layers, but no Singularity images, keeps their parts
// within the limit.
func TestPruneParts(t *testing.T) {
	t.Parallel()
	c, err := squashfs.NewCompressor(squashfs.Compression{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, err := parts.New(dir, 1, c)
	if err != nil {
		t.Fatal(err)
	}
	layer := store.Copy(t.Context(), "registry.example")
	if _, err := layer.Write(make([]byte, 1024)); err != nil { // an empty tar
		t.Fatal(err)
	}
	if err := layer.Close(digest.FromString("layer")); err != nil {
		t.Fatal(err)
	}
	files := func() int {
		all, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range all {
			if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
				n++
			}
		}
		return n
	}
	if files() != 1 {
		t.Fatalf("there are %d parts", files())
	}
	(&Engine{o: Options{Parts: store}}).prune(nil)
	if files() != 0 {
		t.Errorf("%d parts remain", files())
	}
}
