package cache_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/mount/cache"
)

// indexDigest is the digest of a compressed index.
const indexDigest = "sha256:" + rootID

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Until(t, what, func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
}

func TestFirstsAreRecorded(t *testing.T) {
	t.Parallel()
	f, folder := newFixture(t, 20*chunk), t.TempDir()
	c := cache.Open(folder)
	e := f.open(t, c, f.source)
	if e.Recorded() != nil {
		t.Error("something is recorded without Record")
	}
	e.Record()
	for _, off := range []int{5*chunk + 7, 2 * chunk, 5 * chunk, 10*chunk - 50} {
		f.check(t, e, off, 100)
	}
	want := []cache.First{{Chunk: 5}, {Chunk: 2}, {Chunk: 9}, {Chunk: 10}}
	if got := e.Recorded(); !slices.Equal(got, want) {
		t.Errorf("recorded %v", got)
	}
	for _, added := range []int{4, 0} {
		if got := c.AddFirsts(indexDigest, e.Recorded()); got != added {
			t.Errorf("%d entries were added instead of %d", got, added)
		}
	}
	if got := c.AddFirsts(indexDigest, []cache.First{{Chunk: 2}, {Chunk: 1}}); got != 1 {
		t.Errorf("%d entries were added", got)
	}
	want = append(want, cache.First{Chunk: 1})
	for _, one := range []*cache.Cache{cache.Open(folder), cache.Open(t.TempDir(), folder)} {
		if got := one.Firsts(indexDigest); !slices.Equal(got, want) {
			t.Errorf("read %v", got)
		}
	}
}

func TestFirstsAreFetchedInAdvance(t *testing.T) {
	t.Parallel()
	f, folder := newFixture(t, 20*chunk), t.TempDir()
	e := f.open(t, cache.Open(folder), f.source)
	f.check(t, e, 3*chunk, 100) // stores the chunks 3 and 4
	before := f.requests.Load()
	e.FetchFirsts([]cache.First{{Chunk: 9}, {Package: 7}, {Chunk: 1000}, {Chunk: 10}, {Chunk: 3}, {Chunk: 15}, {Chunk: 9}})
	until(t, "three chunks are stored", func() bool { return len(files(t, folder+"/chunks/*/*")) == 5 })
	for _, i := range []int{9, 10, 15} {
		f.check(t, e, i*chunk, chunk)
	}
	if got := f.requests.Load() - before; got != 2 { // 9 with 10, and 15
		t.Errorf("%d requests", got)
	}
	e.Close()
	e.FetchFirsts([]cache.First{{Chunk: 0}})
	if got := len(files(t, folder+"/chunks/*/*")); got != 5 {
		t.Errorf("%d chunks after Close", got)
	}
}

// Small packages are fetched as a whole, and nothing is fetched without a source or a cache that can be written.
func TestFirstsOfSmallPackages(t *testing.T) {
	t.Parallel()
	f, folder := newFixture(t, chunk+100), t.TempDir()
	f.open(t, cache.Open(folder), nil).FetchFirsts([]cache.First{{}})
	e := f.open(t, cache.Open(folder), f.source)
	e.FetchFirsts([]cache.First{{Chunk: 1}})
	until(t, "the package is complete", func() bool { return len(files(t, folder+"/blobs/*")) == 1 })
	f.check(t, e, 0, len(f.content))
	if got := f.requests.Load(); got != 1 {
		t.Errorf("%d requests", got)
	}
}

// Reads work also if the fetching in advance fails.
func TestFirstsThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20*chunk)
	f.source.change = func(_ int64, b []byte) []byte {
		b[0] ^= 1
		return b
	}
	e := f.open(t, cache.Open(t.TempDir()), f.source)
	e.FetchFirsts([]cache.First{{Chunk: 9}, {Chunk: 3}})
	until(t, "they were requested", func() bool { return e.Stats.Requests.Load() >= 2 })
	e.Close()
	f.source.change = nil
	f.check(t, f.open(t, cache.Open(t.TempDir()), f.source), 9*chunk, 100)
}

func TestFirstsOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c := cache.Open(folder)
	c.AddFirsts(indexDigest, []cache.First{{Chunk: 1}})
	path := filepath.Join(folder, "firsts", rootID)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := c.Firsts(indexDigest); got != nil {
		t.Errorf("a list that others can write: %v", got)
	}
	for _, text := range []string{"", "{", `{"version":2,"chunks":[[0,1]]}`, `{"version":1,"chunks":[[0,1,2]]}`, `{"version":1,"chunks":[[-1,0]]}`, strings.Repeat(" ", limits.MountFirstsBytes+1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.Firsts(indexDigest); got != nil {
			t.Errorf("%.30q: %v", text, got)
		}
	}
	if got := c.AddFirsts("sha256:x", []cache.First{{}}); got != 1 || c.Problem() != nil {
		t.Errorf("another digest: %d, %v", got, c.Problem())
	}
}

func TestFirstsAreBounded(t *testing.T) {
	t.Parallel()
	c := cache.Open(t.TempDir())
	var list []cache.First
	for i := range limits.MountFirsts + 10 {
		list = append(list, cache.First{Package: i, Chunk: 123_456})
	}
	if got := c.AddFirsts(indexDigest, list); got != limits.MountFirsts {
		t.Errorf("added %d", got)
	}
	if got := c.Firsts(indexDigest); len(got) != limits.MountFirsts {
		t.Errorf("read %d", len(got))
	}
}

func FuzzFirsts(f *testing.F) {
	f.Add([]byte(`{"version":1,"chunks":[[0,1],[2,3]]}`))
	f.Add([]byte(`{"version":1,"chunks":[[0]]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := cache.ParseFirsts(raw)
		if err != nil {
			return
		}
		again, err := cache.EncodeFirsts(list)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := cache.ParseFirsts(again); err != nil || !slices.Equal(got, list) {
			t.Errorf("%v became %v, %v", list, got, err)
		}
	})
}
