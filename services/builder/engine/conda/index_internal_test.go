package conda

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/limits"
)

// TestIndexedFiles checks which files of a package are reported, and in which order.
func TestIndexedFiles(t *testing.T) {
	t.Parallel()
	paths := []string{
		"lib/", "lib/a/b/c.so", "lib/a.so", "top", "bin/z", "bin/a", "bin/sub/x", "conda-meta/a-1-0.json", "lib/python3.12/site-packages/a.py",
		"lib/\x1b[2J", "lib/\xff", strings.Repeat("a", limits.IndexedPath+1),
	}
	if got := indexedFiles(paths); !slices.Equal(got, []string{"bin/a", "bin/z", "top", "lib/a.so", "bin/sub/x", "lib/a/b/c.so"}) {
		t.Errorf("reported are %q", got)
	}
	paths = nil
	for i := range limits.IndexedFilesOfPackage {
		paths = append(paths, fmt.Sprintf("lib/%d", i))
	}
	if got := indexedFiles(append(paths, "bin/last")); len(got) != limits.IndexedFilesOfPackage || got[0] != "bin/last" {
		t.Errorf("of many files there are reported %d, with %s first", len(got), got[0])
	}
}
