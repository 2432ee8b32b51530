package cache_test

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/mounttest"
)

// TestFirstPaths checks which files a list of chunks has, and their order.
func TestFirstPaths(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 3*erofs.ChunkSize)
	x, err := erofs.Open(mounttest.Index(t,
		mounttest.Pack(t, mounttest.Files{"bin/small": "a", "lib/large": large, "lib/next": "b", "lib/link": "->next", "lib/empty": ""}),
		mounttest.Pack(t, mounttest.Files{"share/x/one": "1", "share/x/two": "2"}),
	))
	if err != nil {
		t.Fatal(err)
	}
	extent := func(path string) (out cache.First) {
		nid := x.Root()
		for part := range strings.SplitSeq(path, "/") {
			var ok bool
			if nid, ok = x.Lookup(nid, part); !ok {
				t.Fatal(path)
			}
		}
		device, at, ok := x.Extent(nid)
		if !ok {
			t.Fatal(path)
		}
		return cache.First{Package: device, Chunk: int(at / erofs.ChunkSize)}
	}
	last := extent("lib/large")
	last.Chunk++
	for name, c := range map[string]struct {
		list []cache.First
		want []string
	}{
		"nothing":                   {},
		"chunks that do not exist":  {list: []cache.First{{Package: 7}, {Chunk: 1000}}},
		"two files in one chunk":    {list: []cache.First{extent("share/x/one")}, want: []string{"share/x/one", "share/x/two"}},
		"the middle of a file":      {list: []cache.First{last}, want: []string{"lib/large"}},
		"the order of the list":     {list: []cache.First{extent("share/x/one"), last}, want: []string{"share/x/one", "share/x/two", "lib/large"}},
		"the first of equal chunks": {list: []cache.First{last, extent("share/x/one"), last}, want: []string{"lib/large", "share/x/one", "share/x/two"}},
	} {
		got, err := cache.FirstPaths(x, c.list)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
