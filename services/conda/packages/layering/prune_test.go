package layering_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// TestPrune checks that the least recently used layers are removed.
func TestPrune(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	f := folder(t, dir)
	var times atomic.Int32
	for i, text := range []string{"oldest", "middle", "newest"} {
		p, err := f.Keep(ctx, spec.LayerKey(text), writing(text, &times))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(filepath.Join(dir, "blobs", p.Digest.Encoded()), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if freed, err := f.Prune(ctx, 18); err != nil || freed != 0 {
		t.Errorf("%d bytes were freed where there was room: %v", freed, err)
	}
	if _, err := f.Package(ctx, "oldest"); err != nil { // marks it as used
		t.Fatal(err)
	}
	if freed, err := f.Prune(ctx, 12); err != nil || freed != 6 {
		t.Errorf("%d bytes were freed: %v", freed, err)
	}
	for key, there := range map[spec.LayerKey]bool{"oldest": true, "middle": false, "newest": true} {
		_, err := f.Package(ctx, key)
		if _, doc := os.Stat(filepath.Join(dir, "packages", string(key))); (err == nil) != there || (doc == nil) != there || err != nil && !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: %v, %v", key, err, doc)
		}
	}
}
