package registry_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/registry"
	"slipway.dev/services/registry/blob"
)

// newCachingFront is newFront with a blob cache. It also returns the cache's folder.
func newCachingFront(t *testing.T) (*front, string) {
	t.Helper()
	dir := t.TempDir()
	f := newFrontWith(t, 1000, func(d *registry.Deps) { d.Blobs = openBlobs(t, blob.Config{Dir: dir, Size: 1 << 20}) })
	f.up.Requests()
	return f, dir
}

func (f *front) asked(kind string) (out []string) {
	for _, r := range f.up.Requests() {
		if strings.Contains(r, kind) {
			out = append(out, strings.Fields(r)[0])
		}
	}
	return out
}

// there returns a blob's content as the image's registry has it.
func (f *front) there(t *testing.T, d string) []byte {
	t.Helper()
	resp, err := http.Get("http://" + f.up.Host + "/v2/lib/tool/blobs/" + d)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil || digest.FromBytes(content).String() != d {
		t.Fatal(len(content), err)
	}
	return content
}

// TestWarmBlobs checks that cached blobs are served from disk, in full and in ranges. For
// each request the registry is asked whether the login may read the blob; if it refuses or
// does not respond, the client gets nothing.
func TestWarmBlobs(t *testing.T) {
	t.Parallel()
	f, _ := newCachingFront(t)
	path := f.name + "/blobs/" + f.layer
	cold := f.ask(http.MethodGet, path)
	if digest.FromBytes(cold.Body.Bytes()).String() != f.layer {
		t.Fatalf("it is answered %d: %s", cold.Code, cold.Body)
	}
	if got := f.asked("/blobs/"); !slices.Equal(got, []string{"GET"}) {
		t.Errorf("cold, the registry is asked %q", got)
	}
	warm := f.ask(http.MethodGet, path)
	if !bytes.Equal(warm.Body.Bytes(), cold.Body.Bytes()) || warm.Code != http.StatusOK {
		t.Errorf("warm, it is answered %d: %s", warm.Code, warm.Body)
	}
	for key := range cold.Header() {
		if key != "Date" && warm.Header().Get(key) != cold.Header().Get(key) {
			t.Errorf("%s: %q cold, %q warm", key, cold.Header().Get(key), warm.Header().Get(key))
		}
	}
	part := f.ask(http.MethodGet, path, "Range", "bytes=1-4")
	if part.Code != http.StatusPartialContent || !bytes.Equal(part.Body.Bytes(), cold.Body.Bytes()[1:5]) {
		t.Errorf("a part is answered %d: %q", part.Code, part.Body)
	}
	if got := f.asked("/blobs/"); !slices.Equal(got, []string{"HEAD", "HEAD"}) {
		t.Errorf("warm, the registry is asked %q", got)
	}
	for says, want := range map[int]int{
		http.StatusUnauthorized: 401, http.StatusForbidden: 403, http.StatusNotFound: 404, http.StatusInternalServerError: 503,
	} {
		f.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(says); return true })
		if w := f.ask(http.MethodGet, path); w.Code != want || bytes.Contains(w.Body.Bytes(), cold.Body.Bytes()) {
			t.Errorf("the registry says %d, and it is answered %d, want %d", says, w.Code, want)
		}
	}
}

// TestPoisonedBlobsAreNotKept checks that the next client gets the registry's current
// content.
func TestPoisonedBlobsAreNotKept(t *testing.T) {
	t.Parallel()
	f, dir := newCachingFront(t)
	path := f.name + "/blobs/" + f.layer
	f.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write(bytes.Repeat([]byte{'x'}, int(f.size)))
		return true
	})
	if w := f.ask(http.MethodGet, path); w.Code != http.StatusOK || w.Body.Len() != int(f.size) {
		t.Errorf("it is answered %d", w.Code)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 || err != nil {
		t.Errorf("%q are kept, %v", left, err)
	}
	f.up.Intercept(nil)
	if w := f.ask(http.MethodGet, path); digest.FromBytes(w.Body.Bytes()).String() != f.layer {
		t.Errorf("it is answered %d: %s", w.Code, w.Body)
	}
}

// TestTruncatedBlobsAreServedByTheRegistry checks that a truncated cache file is replaced.
func TestTruncatedBlobsAreServedByTheRegistry(t *testing.T) {
	t.Parallel()
	f, dir := newCachingFront(t)
	path := f.name + "/blobs/" + f.layer
	f.ask(http.MethodGet, path)
	kept, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	if err := os.Truncate(kept[0], 3); err != nil {
		t.Fatal(err)
	}
	f.up.Requests()
	for _, want := range []string{"GET", "HEAD"} {
		if w := f.ask(http.MethodGet, path); digest.FromBytes(w.Body.Bytes()).String() != f.layer {
			t.Errorf("it is answered %d: %s", w.Code, w.Body)
		}
		if got := f.asked("/blobs/"); !slices.Equal(got, []string{want}) {
			t.Errorf("the registry is asked %q, want %q", got, want)
		}
	}
}

// TestRedirectedBlobIsCached checks that the target of an upstream redirect is fetched once
// and cached. Ranges of it are not cached.
func TestRedirectedBlobIsCached(t *testing.T) {
	t.Parallel()
	f, _ := newCachingFront(t)
	path, read := f.name+"/blobs/"+f.layer, 0
	content := f.there(t, f.layer)
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read++
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(storage.Close)
	f.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, storage.URL+"/object?signature=1", http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	if w := f.ask(http.MethodGet, path, "Range", "bytes=1-4"); w.Code != http.StatusTemporaryRedirect || read != 0 {
		t.Errorf("a part is answered %d", w.Code)
	}
	for range 3 {
		if w := f.ask(http.MethodGet, path); w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), content) {
			t.Errorf("it is answered %d %v", w.Code, w.Header())
		}
	}
	if read != 1 {
		t.Errorf("it was read %d times", read)
	}
	storage.Close()
	if w := f.ask(http.MethodGet, path); w.Code != http.StatusOK {
		t.Errorf("without the storage it is answered %d", w.Code)
	}
}
