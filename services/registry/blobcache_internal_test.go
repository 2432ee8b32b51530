package registry

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/internal/upstream"
)

func openCache(t *testing.T, dir string, limit int64) *blobCache {
	t.Helper()
	c, err := newBlobCache(Deps{Metrics: prometheus.NewRegistry(), Settings: Settings{BlobDir: dir, BlobCache: limit}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.close() })
	return c
}

func keyOfBlob(content string) blobKey {
	return blobKey{upstream.Repository{Host: "h", Name: "n"}, digest.FromString(content), int64(len(content))}
}

// keepAs passes content through the cache, as if it were what key says.
func keepAs(t *testing.T, c *blobCache, key blobKey, content string) {
	t.Helper()
	f := c.fill(key, strings.NewReader(content))
	if f == nil {
		t.Fatal("it is not kept")
	}
	defer f.end()
	if got, err := io.ReadAll(f); err != nil || string(got) != content {
		t.Fatalf("the client has %q, %v", got, err)
	}
	f.commit()
}

func has(c *blobCache, key blobKey) bool {
	f := c.open(key)
	if f == nil {
		return false
	}
	_ = f.Close()
	return true
}

func files(t *testing.T, dir string) (n int, size int64) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		n, size = n+1, size+info.Size()
	}
	return n, size
}

// TestBlobsAreKeptByWhereTheyAre: a digest that somebody names elsewhere opens nothing.
func TestBlobsAreKeptByWhereTheyAre(t *testing.T) {
	t.Parallel()
	c := openCache(t, t.TempDir(), 1000)
	key := keyOfBlob("secret")
	keepAs(t, c, key, "secret")
	if !has(c, key) {
		t.Error("it is not kept")
	}
	for name, change := range map[string]func(*blobKey){
		"registry":   func(k *blobKey) { k.repo.Host = "evil" },
		"repository": func(k *blobKey) { k.repo.Name = "evil" },
		"division":   func(k *blobKey) { k.repo = upstream.Repository{Host: "h\nn", Name: ""} },
		"digest":     func(k *blobKey) { k.digest = digest.FromString("other") },
		"size":       func(k *blobKey) { k.size++ },
	} {
		other := key
		change(&other)
		if has(c, other) {
			t.Errorf("another %s has it", name)
		}
	}
	if !has(c, key) {
		t.Error("it is no more")
	}
}

// TestWhatIsNotTheBlobIsNotKept, and leaves nothing behind.
func TestWhatIsNotTheBlobIsNotKept(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"poisoned": "sEcret", "short": "secre", "long": "secret!", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := openCache(t, dir, 1000)
			keepAs(t, c, keyOfBlob("secret"), content)
			if n, _ := files(t, dir); n != 0 || has(c, keyOfBlob("secret")) || c.used() != 0 {
				t.Errorf("%d files are kept, %d bytes", n, c.used())
			}
		})
	}
}

// TestBlobCacheIsBounded, by what is on disk; what was used longest ago goes, and can be
// read to its end.
func TestBlobCacheIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openCache(t, dir, 100)
	blob := func(s string) string { return strings.Repeat(s, 25) }
	for _, s := range []string{"a", "b", "c", "d"} {
		keepAs(t, c, keyOfBlob(blob(s)), blob(s))
	}
	if !has(c, keyOfBlob(blob("a"))) {
		t.Fatal("a is not kept")
	}
	reading := c.open(keyOfBlob(blob("b")))
	defer reading.Close()
	for _, s := range []string{"c", "d", "a"} {
		has(c, keyOfBlob(blob(s)))
	}
	keepAs(t, c, keyOfBlob(blob("e")), blob("e"))
	for s, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true, "e": true} {
		if has(c, keyOfBlob(blob(s))) != want {
			t.Errorf("%s is kept: %v", s, !want)
		}
	}
	if got, err := io.ReadAll(reading); err != nil || string(got) != blob("b") {
		t.Errorf("who was reading it has %q, %v", got, err)
	}
	if n, size := files(t, dir); n != 4 || size != 100 || c.used() != 100 {
		t.Errorf("%d files, %d bytes, %d counted", n, size, c.used())
	}
	if n := testutil.ToFloat64(c.evicted); n != 1 {
		t.Errorf("%v left", n)
	}
	if c.fill(keyOfBlob(strings.Repeat("f", 26)), nil) != nil {
		t.Error("a blob of more than its share is kept")
	}
	if f := c.fill(blobKey{size: 1 << 60}, nil); f != nil {
		t.Error("a blob of an exabyte is kept")
	}
	claims := c.fill(keyOfBlob(blob("g")), strings.NewReader(""))
	if n, _ := files(t, dir); n != 5 || !has(c, keyOfBlob(blob("c"))) {
		t.Error("a size that is claimed drives others out")
	}
	if c.fill(keyOfBlob(blob("g")), nil) != nil {
		t.Error("it is written twice at a time")
	}
	claims.end()
}

// TestBlobCacheAfterACrash: what is whole is kept, with its order of use; what is not is
// removed; what is somebody else's stays; and one process at a time has the folder.
func TestBlobCacheAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openCache(t, dir, 100)
	keepAs(t, c, keyOfBlob("whole"), "whole")
	keepAs(t, c, keyOfBlob("truncated"), "truncated")
	keepAs(t, c, keyOfBlob("now"), "now")
	if err := os.Truncate(c.path(keyOfBlob("now").file()), 1); err != nil || has(c, keyOfBlob("now")) || has(c, keyOfBlob("now")) {
		t.Errorf("a truncated file is served, %v", err)
	}
	if n := testutil.ToFloat64(c.failed); n != 1 {
		t.Errorf("%v failed", n)
	}
	half := c.fill(keyOfBlob("half"), strings.NewReader("half")) // and no end
	_, _ = io.ReadAll(half)
	for name, content := range map[string]string{"notes.txt": "mine", "incoming": "mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(c.path(keyOfBlob("truncated").file()), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := newBlobCache(Deps{Metrics: prometheus.NewRegistry(), Settings: Settings{BlobDir: dir, BlobCache: 100}}); err == nil {
		t.Error("two processes have it")
	}
	_ = c.close()
	c = openCache(t, dir, 100)
	if !has(c, keyOfBlob("whole")) || has(c, keyOfBlob("truncated")) || has(c, keyOfBlob("half")) {
		t.Error("not what was whole is kept")
	}
	if n, _ := files(t, dir); n != 3 || c.used() != int64(len("whole")) {
		t.Errorf("%d files, %d bytes", n, c.used())
	}
	_ = c.close()
	if c = openCache(t, dir, 4); has(c, keyOfBlob("whole")) || c.used() != 0 {
		t.Error("a smaller limit is not held")
	}
}

// TestDiskIsFull: the client has its blob, and the cache nothing.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	full, err := syscall.Open("/dev/full", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	dir := t.TempDir()
	c := openCache(t, dir, 1000)
	f := c.fill(keyOfBlob("secret"), strings.NewReader("secret"))
	to := f.to.(*fillingFile)
	name := to.file.Name()
	_ = to.file.Close()
	to.file = os.NewFile(uintptr(full), name) // the device has no other name that could be removed
	got, err := io.ReadAll(f)
	f.commit()
	f.end()
	if !bytes.Equal(got, []byte("secret")) || err != nil {
		t.Errorf("the client has %q, %v", got, err)
	}
	if n, _ := files(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
	if has(c, keyOfBlob("secret")) || c.used() != 0 || testutil.ToFloat64(c.failed) != 1 {
		t.Errorf("%d bytes are kept", c.used())
	}
}

// TestBlobCacheAtOnce has many clients read and write more than fits: each has its own
// blob, and at no time is there more on disk than is counted.
func TestBlobCacheAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openCache(t, dir, 1000)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				readOrKeep(t, c, strings.Repeat(string(rune('a'+(i+n)%11)), 240))
			}
		})
	}
	all.Wait()
	if _, size := files(t, dir); size != c.used() || size > 1000 {
		t.Errorf("%d bytes are on disk, %d counted", size, c.used())
	}
	if got := c.hits.Snapshot(); got.Hits == 0 || testutil.ToFloat64(c.evicted) == 0 {
		t.Errorf("%d were there, %v left", got.Hits, testutil.ToFloat64(c.evicted))
	}
}

func readOrKeep(t *testing.T, c *blobCache, content string) {
	t.Helper()
	key, from := keyOfBlob(content), io.Reader(strings.NewReader(content))
	if f := c.open(key); f != nil {
		defer f.Close()
		from = f
	} else if f := c.fill(key, from); f != nil {
		defer f.end()
		defer f.commit()
		from = f
	}
	if got, err := io.ReadAll(from); err != nil || string(got) != content {
		t.Errorf("a client has %q, %v", got, err)
	}
}
