package cache_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/mounttest"
)

// source has the blob of one package, and counts requests.
type source struct {
	blob     []byte
	requests atomic.Int64
	err      error
	change   func(from int64, b []byte) []byte
}

func (s *source) Range(_ context.Context, _ string, from, to int64) ([]byte, error) {
	s.requests.Add(1)
	if s.err != nil {
		return nil, s.err
	}
	b := bytes.Clone(s.blob[from:to])
	if s.change != nil {
		b = s.change(from, b)
	}
	return b, nil
}

// content is incompressible.
func content(size int) string {
	random := rand.New(rand.NewPCG(uint64(size), 2))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return string(b)
}

// fixture is an environment of one package with one file.
type fixture struct {
	*source
	content string
	index   *erofs.Index
	blobs   map[[32]byte]cache.Blob
}

func newFixture(t *testing.T, size int) *fixture {
	t.Helper()
	f := &fixture{content: content(size)}
	p := mounttest.Pack(t, mounttest.Files{"lib/file": f.content})
	f.source = &source{blob: p.Blob}
	x, err := erofs.Open(mounttest.Index(t, p))
	if err != nil {
		t.Fatal(err)
	}
	f.index, f.blobs = x, map[[32]byte]cache.Blob{p.Device.ID: {Digest: p.Digest.String(), Size: int64(len(p.Blob))}}
	return f
}

func (f *fixture) open(t *testing.T, c *cache.Cache, s cache.Source) *cache.Environment {
	t.Helper()
	e, err := c.Environment(t.Context(), f.index, f.blobs, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// check reads a part of the file.
func (f *fixture) check(t *testing.T, e *cache.Environment, off, size int) {
	t.Helper()
	p := make([]byte, size)
	if err := e.ReadAt(0, p, int64(off)); err != nil {
		t.Errorf("reading %d bytes at %d: %v", size, off, err)
	} else if string(p) != f.content[off:off+size] {
		t.Errorf("%d bytes at %d are wrong", size, off)
	}
}

func files(t *testing.T, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(folder)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

const chunk = erofs.ChunkSize

func TestPartsAreFetchedOnce(t *testing.T) {
	t.Parallel()
	f, folder := newFixture(t, 9*chunk+100), t.TempDir()
	e := f.open(t, cache.Open(folder), f.source)
	f.check(t, e, 5*chunk+7, 100)
	if got := f.requests.Load(); got != 2 { // the table and two chunks
		t.Errorf("%d requests", got)
	}
	if n := len(files(t, folder+"/chunks/*/*")); n != 2 {
		t.Errorf("%d chunks are stored", n)
	}
	again := f.open(t, cache.Open(folder), nil)
	f.check(t, again, 5*chunk+7, chunk)
	if err := again.ReadAt(0, make([]byte, 1), 0); !errors.Is(err, cache.ErrOffline) {
		t.Errorf("without a source: %v", err)
	}
}

func TestLastChunkCompletesThePackage(t *testing.T) {
	t.Parallel()
	f, folder := newFixture(t, 9*chunk+100), t.TempDir()
	e := f.open(t, cache.Open(folder), f.source)
	for off := 0; off < len(f.content); off += chunk {
		f.check(t, e, off, min(chunk, len(f.content)-off))
	}
	if got := f.requests.Load(); got > 5 {
		t.Errorf("%d requests: nothing was read ahead", got)
	}
	e.Close()
	if _, ok := e.Complete(); !ok {
		t.Error("the package is not complete")
	}
	if blobs, chunks := files(t, folder+"/blobs/*"), files(t, folder+"/chunks/*/*"); len(blobs) != 1 || len(chunks) != 0 {
		t.Errorf("blobs %v, chunks %v", blobs, chunks)
	}
	f.check(t, f.open(t, cache.Open(folder), nil), 0, len(f.content))
}

func TestSmallPackageIsOneRequestAndOneFile(t *testing.T) {
	t.Parallel()
	f, folder := newFixture(t, chunk+100), t.TempDir()
	f.check(t, f.open(t, cache.Open(folder), f.source), chunk, 100)
	if got := f.requests.Load(); got != 1 {
		t.Errorf("%d requests", got)
	}
	if all := append(files(t, folder+"/*/*"), files(t, folder+"/chunks/*/*")...); len(all) != 1 {
		t.Errorf("files %v", all)
	}
}

func TestConcurrentReadsShareRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20*chunk)
	e := f.open(t, cache.Open(t.TempDir()), f.source)
	var readers sync.WaitGroup
	for range 64 {
		readers.Go(func() { f.check(t, e, 3*chunk, 2*chunk) })
	}
	readers.Wait()
	if got := f.requests.Load(); got != 2 {
		t.Errorf("%d requests", got)
	}
}

func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{100, chunk + 1, 9 * chunk} {
		f := newFixture(t, size)
		c := cache.Open(filepath.Join(file, "cache"))
		e := f.open(t, c, f.source)
		f.check(t, e, 0, size)
		if c.Problem() == nil {
			t.Error("no problem is reported")
		}
		if err := e.Fetch(t.Context(), nil); err == nil {
			t.Error("an environment was fetched into a cache that cannot be written")
		}
	}
}

func TestLowerCache(t *testing.T) {
	t.Parallel()
	f, lower, upper := newFixture(t, 9*chunk), t.TempDir(), t.TempDir()
	if err := f.open(t, cache.Open(lower), f.source).Fetch(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	e := f.open(t, cache.Open(upper, "/nonexistent", lower), nil)
	f.check(t, e, 0, len(f.content))
	if list := files(t, upper+"/*"); len(list) != 0 {
		t.Errorf("the upper cache has %v", list)
	}
	if paths, ok := e.Complete(); !ok || !strings.HasPrefix(paths[0], lower) {
		t.Errorf("%v, %v", paths, ok)
	}
}

func TestTamperedSource(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(int64, []byte) []byte{
		"a changed byte": func(_ int64, b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"a cut response": func(_ int64, b []byte) []byte { return b[:len(b)/2] },
		"zeros":          func(_ int64, b []byte) []byte { clear(b); return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{chunk + 1, 9 * chunk} {
				f := newFixture(t, size)
				synctest.Test(t, func(t *testing.T) { // with the pauses of the attempts
					folder := t.TempDir()
					f.change = change
					e, err := cache.Open(folder).Environment(context.Background(), f.index, f.blobs, f.source)
					if err != nil {
						t.Fatal(err)
					}
					defer e.Close()
					if err := e.ReadAt(0, make([]byte, 10), 0); err == nil {
						t.Error("no error")
					}
					if list := append(files(t, folder+"/blobs/*"), files(t, folder+"/chunks/*/*")...); len(list) != 0 {
						t.Errorf("stored %v", list)
					}
					f.change = nil // errors are not cached
					f.check(t, e, 0, size)
				})
			}
		})
	}
}

func TestDeadSource(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 9*chunk)
	synctest.Test(t, func(t *testing.T) {
		f.err = errors.New("connection refused")
		e, err := cache.Open(t.TempDir()).Environment(context.Background(), f.index, f.blobs, f.source)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.ReadAt(0, make([]byte, 10), 0); !errors.Is(err, f.err) {
			t.Errorf("got %v", err)
		}
		if got := f.requests.Load(); got != 5 {
			t.Errorf("%d attempts", got)
		}
		f.err = errors.Join(cache.ErrPermanent)
		if err := e.ReadAt(0, make([]byte, 10), 0); !errors.Is(err, cache.ErrPermanent) || f.requests.Load() != 6 {
			t.Errorf("a permanent error: %v, %d attempts", err, f.requests.Load())
		}
	})
}

func TestTamperedCache(t *testing.T) {
	t.Parallel()
	flip := func(t *testing.T, path string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("chunks and table", func(t *testing.T) {
		t.Parallel()
		f, folder := newFixture(t, 9*chunk), t.TempDir()
		f.check(t, f.open(t, cache.Open(folder), f.source), 0, chunk)
		for _, path := range append(files(t, folder+"/chunks/*/*"), files(t, folder+"/tables/*")...) {
			flip(t, path)
		}
		if err := os.Chmod(filepath.Join(folder, "chunks"), 0o777); err != nil { // so that they are verified at each read
			t.Fatal(err)
		}
		e := f.open(t, cache.Open(folder), f.source)
		f.check(t, e, 0, len(f.content))
		if e.Stats.Rejected.Load() == 0 {
			t.Error("nothing was rejected")
		}
	})
	t.Run("package that others can write", func(t *testing.T) {
		t.Parallel()
		f, folder := newFixture(t, 9*chunk), t.TempDir()
		if err := f.open(t, cache.Open(folder), f.source).Fetch(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		flip(t, files(t, folder+"/blobs/*")[0])
		if err := os.Chmod(filepath.Join(folder, "blobs"), 0o777); err != nil {
			t.Fatal(err)
		}
		e := f.open(t, cache.Open(folder), f.source)
		if _, ok := e.Complete(); ok {
			t.Error("the package is trusted")
		}
		f.check(t, e, 0, len(f.content))
	})
}

// In a user namespace, the files of root have the owner 65534.
func TestCacheOfRootInUserNamespace(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can change the owner of files")
	}
	f, folder := newFixture(t, 9*chunk), t.TempDir()
	if err := f.open(t, cache.Open(folder), f.source).Fetch(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	outside := cache.Open("/nonexistent", folder).RootFolders()
	if len(outside) != 1 || outside[0] != folder {
		t.Fatalf("folders of root: %v", outside)
	}
	if err := os.Chmod(folder+"/blobs", 0o777); err != nil {
		t.Fatal(err)
	}
	if list := cache.Open(folder).RootFolders(); len(list) != 0 {
		t.Errorf("folders of root: %v, but others can write one", list)
	}
	if err := os.Chmod(folder+"/blobs", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files(t, folder+"/blobs/*"), folder+"/blobs", folder) {
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	c := cache.Open(folder)
	if _, ok := f.open(t, c, nil).Complete(); ok {
		t.Error("files of another user are trusted")
	}
	c = cache.Open(folder)
	c.TrustRoot(outside)
	if _, ok := f.open(t, c, nil).Complete(); !ok {
		t.Error("files of root are not trusted")
	}
}

func TestFetchTransfersNothingTwice(t *testing.T) {
	t.Parallel()
	f, folder := newFixture(t, 60*chunk), t.TempDir()
	e := f.open(t, cache.Open(folder), f.source)
	if err := e.Fetch(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got, want := e.Stats.Bytes.Load(), int64(len(f.blob)); got > want+want/100 {
		t.Errorf("%d bytes were fetched of a package with %d", got, want)
	}
	if list := files(t, folder+"/chunks/*/*"); len(list) != 0 {
		t.Errorf("chunks %v", list)
	}
}
