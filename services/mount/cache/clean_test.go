package cache_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/mounttest"
)

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// use stores an environment of a package with a file in the cache, as if it had been used at a time.
func use(t *testing.T, c *cache.Cache, name string, size int, at time.Time) string {
	t.Helper()
	p := mounttest.Pack(t, mounttest.Files{"lib/" + name: content(size)})
	raw := mounttest.Index(t, p)
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := enc.EncodeAll(raw, nil)
	x, _, err := c.Index(digestOf(packed), digestOf(raw), func() ([]byte, error) { return packed, nil })
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Environment(t.Context(), x, map[[32]byte]cache.Blob{p.Device.ID: {Digest: p.Digest.String(), Size: int64(len(p.Blob))}}, &source{blob: p.Blob})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Fetch(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(map[string]any{"layers": []any{map[string]string{"digest": digestOf(packed)}}, "name": name})
	if err != nil {
		t.Fatal(err)
	}
	c.AddDocument(digestOf(manifest), manifest)
	c.Touch(digestOf(manifest), cache.Name{Name: name}, time.Now())
	c.Touch(digestOf(manifest), cache.Name{Name: name}, at)
	hex := digestOf(manifest)[len("sha256:"):]
	if err := os.Chtimes(c.Dir()+"/envs/"+hex, at, at); err != nil {
		t.Fatal(err)
	}
	return digestOf(manifest)
}

func TestCleanKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	c, now := cache.Open(t.TempDir()), time.Now()
	keep := use(t, c, "used", 9*chunk, now.Add(-10*24*time.Hour))
	use(t, c, "unused", 8*chunk, now.Add(-40*24*time.Hour))
	later := now.Add(2 * time.Hour)
	done, err := c.Clean(30*24*time.Hour, later)
	if err != nil || done.Environments != 1 || done.Files < 3 {
		t.Errorf("%+v, %v", done, err)
	}
	used, err := c.Used()
	if err != nil || len(used) != 1 || used[0].Digest != keep || used[0].Name.Name != "used" {
		t.Errorf("%+v, %v", used, err)
	}
	for folder, want := range map[string]int{"blobs": 1, "indexes": 1, "trash": 2} {
		if list := files(t, c.Dir()+"/"+folder+"/*"); len(list) != want {
			t.Errorf("%s: %v", folder, list)
		}
	}
	if done, err = c.Clean(30*24*time.Hour, later.Add(25*time.Hour)); err != nil || done.Files != 2 || len(files(t, c.Dir()+"/trash/*")) != 0 {
		t.Errorf("the trash: %+v, %v", done, err)
	}
}

func TestVerifyFindsChangedFiles(t *testing.T) {
	t.Parallel()
	c := cache.Open(t.TempDir())
	use(t, c, "one", 9*chunk, time.Now())
	var wrong []string
	verify := func() int {
		wrong = nil
		n, err := c.Verify(t.Context(), func(b cache.Bad) { wrong = append(wrong, b.Path) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := verify(); n != 3 || len(wrong) != 0 { // manifest, compressed index, package
		t.Errorf("%d files, wrong %v", n, wrong)
	}
	changed := append(files(t, c.Dir()+"/blobs/*"), files(t, c.Dir()+"/documents/*")...)
	for _, path := range changed {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if verify(); len(wrong) != len(changed) {
		t.Errorf("changed %v, wrong %v", changed, wrong)
	}
}

func TestTamperedIndex(t *testing.T) {
	t.Parallel()
	raw := mounttest.Index(t, mounttest.Pack(t, mounttest.Files{"a": "b"}))
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := enc.EncodeAll(raw, nil)
	other := bytes.Clone(packed)
	other[len(other)/2] ^= 1
	c := cache.Open(t.TempDir())
	if _, _, err := c.Index(digestOf(packed), digestOf(raw), func() ([]byte, error) { return other, nil }); err == nil {
		t.Error("an index with another digest is accepted")
	}
	if _, _, err := c.Index(digestOf(packed), digestOf(packed), func() ([]byte, error) { return packed, nil }); err == nil {
		t.Error("an index whose content has another digest is accepted")
	}
	if _, path, err := c.Index(digestOf(packed), digestOf(raw), func() ([]byte, error) { return packed, nil }); err != nil || path == "" {
		t.Errorf("%q, %v", path, err)
	}
}
