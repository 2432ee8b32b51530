package blob

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

func openCache(t *testing.T, dir string, limit int64) *folder {
	t.Helper()
	c, err := newFolder(Config{Metrics: prometheus.NewRegistry(), Dir: dir, Size: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func keyOf(content string) Key {
	return Key{Repo: upstream.Repository{Host: "h", Name: "n"}, Digest: digest.FromString(content), Size: int64(len(content))}
}

// keepAs reads content through the cache under the given key.
func keepAs(t *testing.T, c *folder, key Key, content string) {
	t.Helper()
	f := c.Fill(key, strings.NewReader(content))
	if f == nil {
		t.Fatal("the blob is not cached")
	}
	defer f.End()
	if got, err := io.ReadAll(f); err != nil || string(got) != content {
		t.Fatalf("the client received %q, %v", got, err)
	}
	f.Commit()
}

func has(c *folder, key Key) bool {
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

// TestKeyIncludesRepository verifies that the same digest in another repository is not found.
func TestKeyIncludesRepository(t *testing.T) {
	t.Parallel()
	c := openCache(t, t.TempDir(), 1000)
	key := keyOf("secret")
	keepAs(t, c, key, "secret")
	if !has(c, key) {
		t.Error("the blob is not cached")
	}
	for name, change := range map[string]func(*Key){
		"registry":   func(k *Key) { k.Repo.Host = "evil" },
		"repository": func(k *Key) { k.Repo.Name = "evil" },
		"division":   func(k *Key) { k.Repo = upstream.Repository{Host: "h\nn", Name: ""} },
		"digest":     func(k *Key) { k.Digest = digest.FromString("other") },
		"size":       func(k *Key) { k.Size++ },
		"rights":     func(k *Key) { k.Rights = "public" },
	} {
		other := key
		change(&other)
		if has(c, other) {
			t.Errorf("the blob is found with another %s", name)
		}
	}
	if !has(c, key) {
		t.Error("the blob was lost")
	}
}

// TestInvalidContentIsNotCached verifies that content without the right digest and size
// leaves nothing behind.
func TestInvalidContentIsNotCached(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"poisoned": "sEcret", "short": "secre", "long": "secret!", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := openCache(t, dir, 1000)
			keepAs(t, c, keyOf("secret"), content)
			if n, _ := files(t, dir); n != 0 || has(c, keyOf("secret")) || c.used() != 0 {
				t.Errorf("%d files are cached, %d bytes", n, c.used())
			}
		})
	}
}

// TestFolderIsBounded verifies that the size on disk is limited, and that the least
// recently used blob is evicted but remains readable.
func TestFolderIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openCache(t, dir, 100)
	blob := func(s string) string { return strings.Repeat(s, 25) }
	for _, s := range []string{"a", "b", "c", "d"} {
		keepAs(t, c, keyOf(blob(s)), blob(s))
	}
	if !has(c, keyOf(blob("a"))) {
		t.Fatal("a is not cached")
	}
	reading := c.open(keyOf(blob("b")))
	defer reading.Close()
	for _, s := range []string{"c", "d", "a"} {
		has(c, keyOf(blob(s)))
	}
	keepAs(t, c, keyOf(blob("e")), blob("e"))
	for s, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true, "e": true} {
		if has(c, keyOf(blob(s))) != want {
			t.Errorf("%s is cached: %v", s, !want)
		}
	}
	if got, err := io.ReadAll(reading); err != nil || string(got) != blob("b") {
		t.Errorf("the reader of an evicted blob got %q, %v", got, err)
	}
	if n, size := files(t, dir); n != 4 || size != 100 || c.used() != 100 {
		t.Errorf("%d files, %d bytes, %d counted", n, size, c.used())
	}
	if n := testutil.ToFloat64(c.evicted); n != 1 {
		t.Errorf("%v left", n)
	}
	if c.Fill(keyOf(strings.Repeat("f", 26)), nil) != nil {
		t.Error("a blob above the maximum share is cached")
	}
	if f := c.Fill(Key{Size: 1 << 60}, nil); f != nil {
		t.Error("a blob of an exabyte is cached")
	}
	claims := c.Fill(keyOf(blob("g")), strings.NewReader(""))
	if n, _ := files(t, dir); n != 5 || !has(c, keyOf(blob("c"))) {
		t.Error("a claimed size evicts other blobs")
	}
	if c.Fill(keyOf(blob("g")), nil) != nil {
		t.Error("the blob is written twice concurrently")
	}
	claims.End()
}

// TestFolderAfterACrash verifies that complete files are cached in their order of use,
// incomplete ones are deleted, foreign ones are ignored, and that only one process can open
// the folder.
func TestFolderAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openCache(t, dir, 100)
	keepAs(t, c, keyOf("whole"), "whole")
	keepAs(t, c, keyOf("truncated"), "truncated")
	keepAs(t, c, keyOf("now"), "now")
	if err := os.Truncate(c.path(keyOf("now").name()), 1); err != nil || has(c, keyOf("now")) || has(c, keyOf("now")) {
		t.Errorf("a truncated file is served, %v", err)
	}
	if n := testutil.ToFloat64(c.failed); n != 1 {
		t.Errorf("%v failed", n)
	}
	half := c.Fill(keyOf("half"), strings.NewReader("half")) // the process is killed before End
	_, _ = io.ReadAll(half)
	for name, content := range map[string]string{"notes.txt": "mine", "incoming": "mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(c.path(keyOf("truncated").name()), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := newFolder(Config{Metrics: prometheus.NewRegistry(), Dir: dir, Size: 100}); err == nil {
		t.Error("two processes opened the folder")
	}
	_ = c.Close()
	c = openCache(t, dir, 100)
	if !has(c, keyOf("whole")) || has(c, keyOf("truncated")) || has(c, keyOf("half")) {
		t.Error("the complete file is not cached")
	}
	if n, _ := files(t, dir); n != 3 || c.used() != int64(len("whole")) {
		t.Errorf("%d files, %d bytes", n, c.used())
	}
	_ = c.Close()
	if c = openCache(t, dir, 4); has(c, keyOf("whole")) || c.used() != 0 {
		t.Error("a smaller limit is not applied")
	}
}

// TestDiskIsFull verifies that the client receives its blob although it cannot be cached.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	full, err := syscall.Open("/dev/full", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	dir := t.TempDir()
	c := openCache(t, dir, 1000)
	f := c.Fill(keyOf("secret"), strings.NewReader("secret"))
	to := f.to.(*fillingFile)
	name := to.file.Name()
	_ = to.file.Close()
	to.file = os.NewFile(uintptr(full), name) // named so that discard does not delete the device
	got, err := io.ReadAll(f)
	f.Commit()
	f.End()
	if !bytes.Equal(got, []byte("secret")) || err != nil {
		t.Errorf("the client received %q, %v", got, err)
	}
	if n, _ := files(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
	if has(c, keyOf("secret")) || c.used() != 0 || testutil.ToFloat64(c.failed) != 1 {
		t.Errorf("%d bytes are counted", c.used())
	}
}

// TestFolderConcurrently reads and writes more than fits with many clients. Each gets its
// own blob, and the size on disk never exceeds the counted size.
func TestFolderConcurrently(t *testing.T) {
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
		t.Errorf("%d hits, %v evictions", got.Hits, testutil.ToFloat64(c.evicted))
	}
}

func readOrKeep(t *testing.T, c *folder, content string) {
	t.Helper()
	key, from := keyOf(content), io.Reader(strings.NewReader(content))
	if f := c.open(key); f != nil {
		defer f.Close()
		from = f
	} else if f := c.Fill(key, from); f != nil {
		defer f.End()
		defer f.Commit()
		from = f
	}
	if got, err := io.ReadAll(from); err != nil || string(got) != content {
		t.Errorf("a client received %q, %v", got, err)
	}
}
