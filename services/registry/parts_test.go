package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/registry"
	"slipway.dev/services/registry/blob"
)

// newPartsFront serves an image with a layer that is larger than the blobs that are kept as documents. It also
// returns the content of the layer.
func newPartsFront(t *testing.T, change func(*registry.Deps)) (*front, []byte) {
	t.Helper()
	layer, err := random.Layer(4<<20, types.OCIUncompressedLayer)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layer)
	if err != nil {
		t.Fatal(err)
	}
	up := testkit.NewRegistry(t, testkit.Open)
	up.Push(t, "lib/tool:v1", indexOf(t, img))
	f := newFrontOf(t, up, 1000, change)
	f.look(t)
	return f, f.there(t, f.layer)
}

// indexOf returns an index of an image for linux/amd64.
func indexOf(t *testing.T, img v1.Image) v1.ImageIndex {
	t.Helper()
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf.OS, cf.Architecture = "linux", "amd64"
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		t.Fatal(err)
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	})
}

// readParts reads a response with several ranges as containers/image does, and compares them with the blob.
func readParts(t *testing.T, w *httptest.ResponseRecorder, content []byte, want [][2]int) {
	t.Helper()
	media, params, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil || w.Code != http.StatusPartialContent || media != "multipart/byteranges" || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
		t.Fatalf("it is answered %d %v with %d bytes", w.Code, w.Header(), w.Body.Len())
	}
	if got := w.Header().Get("Content-Range"); got != "" {
		t.Errorf("the response has the Content-Range %q", got)
	}
	body := multipart.NewReader(w.Body, params["boundary"])
	for i := 0; ; i++ {
		part, err := body.NextPart()
		if errors.Is(err, io.EOF) && i == len(want) {
			break
		}
		if err != nil || i >= len(want) {
			t.Fatalf("after %d of %d parts: %v", i, len(want), err)
		}
		got, err := io.ReadAll(part)
		if err != nil || !bytes.Equal(got, content[want[i][0]:want[i][1]+1]) {
			t.Errorf("part %d has %d other bytes, %v", i, len(got), err)
		}
		if is := part.Header.Get("Content-Range"); is != fmt.Sprintf("bytes %d-%d/%d", want[i][0], want[i][1], len(content)) || part.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("part %d has the header %v", i, part.Header)
		}
	}
	if left, err := io.ReadAll(w.Body); len(left) > 0 || err != nil {
		t.Errorf("after the parts there are %d bytes, %v", len(left), err)
	}
}

// askParts requests ranges of the layer.
func (f *front) askParts(want [][2]int) *httptest.ResponseRecorder {
	var list []string
	for _, p := range want {
		list = append(list, fmt.Sprintf("%d-%d", p[0], p[1]))
	}
	return f.ask(http.MethodGet, f.name+"/blobs/"+f.layer, "Range", "bytes="+strings.Join(list, ","))
}

// scattered returns n ranges with gaps that are fetched separately up to the limit.
func scattered(n int) (out [][2]int) {
	for i := range n {
		at := i * (3 << 20) / n
		out = append(out, [2]int{at, at + i%700})
	}
	return out
}

var severalRanges = map[string][][2]int{
	"two":          {{0, 3}, {3 << 20, 3<<20 + 9}},
	"adjacent":     {{0, 3}, {4, 9}},
	"long":         {{5, 1 << 20}, {1<<20 + 200<<10, 4<<20 - 1}},
	"many":         scattered(20),
	"the most":     scattered(limits.BlobRanges),
	"single bytes": {{0, 0}, {2, 2}, {4<<20 - 1, 4<<20 - 1}},
}

// oneRange serves a blob like an object store: several ranges of one request are ignored.
func oneRange(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Range"), ",") {
			r.Header.Del("Range")
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// TestSeveralRanges checks several ranges of one request, from a registry that returns one range for each
// request, from the target of its redirects, and from the cache.
func TestSeveralRanges(t *testing.T) {
	t.Parallel()
	f, content := newPartsFront(t, func(*registry.Deps) {})
	serve := oneRange(content)
	storage := httptest.NewServer(serve)
	t.Cleanup(storage.Close)
	cached, raw := newPartsFront(t, func(d *registry.Deps) { d.Blobs = openBlobs(t, blob.Config{Dir: t.TempDir(), Size: 64 << 20}) })
	if w := cached.ask(http.MethodGet, cached.name+"/blobs/"+cached.layer); w.Code != http.StatusOK {
		t.Fatal(w.Code)
	}
	for name, from := range map[string]struct {
		*front
		content []byte
		answer  http.HandlerFunc // to requests of the blob; nil for the registry's
	}{
		"the registry":   {f, content, nil},
		"one range each": {f, content, serve},
		"a redirect":     {f, content, http.RedirectHandler(storage.URL, http.StatusTemporaryRedirect).ServeHTTP},
		"the cache":      {cached, raw, nil},
	} {
		from.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if from.answer == nil || !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			from.answer(w, r)
			return true
		})
		for which, parts := range severalRanges {
			t.Run(name+", "+which, func(t *testing.T) {
				from.up.Requests()
				readParts(t, from.askParts(parts), from.content, parts)
				if n := len(from.asked("/blobs/")); n > limits.BlobSpans+1 || which == "adjacent" && n > 2 {
					t.Errorf("the registry received %d requests", n)
				}
			})
		}
	}
}

// TestSeveralRangesOfBrokenRegistries checks that ranges are complete and correct, or the response ends early.
func TestSeveralRangesOfBrokenRegistries(t *testing.T) {
	t.Parallel()
	f, content := newPartsFront(t, func(*registry.Deps) {})
	serve, parts := oneRange(content), severalRanges["many"]
	answerAll := func(answer http.HandlerFunc) {
		f.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/blobs/") {
				answer(w, r)
				return true
			}
			return false
		})
	}
	var n atomic.Int64
	answerAll(func(w http.ResponseWriter, r *http.Request) { // after the first one, connections break before or in the response
		i := n.Add(1)
		if i > 1 && i%3 == 0 {
			panic(http.ErrAbortHandler)
		}
		rec := httptest.NewRecorder()
		serve(rec, r)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		if i%3 != 1 {
			_, _ = w.Write(rec.Body.Bytes())
			return
		}
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	readParts(t, f.askParts(parts), content, parts)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		status int
	}{
		"no ranges": {func(w http.ResponseWriter, r *http.Request) { r.Header.Del("Range"); serve(w, r) }, http.StatusOK},
		"another range": {func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=1-1000000")
			serve(w, r)
		}, http.StatusServiceUnavailable},
		"no blob":         {http.NotFound, http.StatusNotFound},
		"no such range":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) }, http.StatusRequestedRangeNotSatisfiable},
		"a dead redirect": {http.RedirectHandler("http://127.0.0.1:1/blob", http.StatusTemporaryRedirect).ServeHTTP, http.StatusTemporaryRedirect},
		"its own address": {http.RedirectHandler("https://slipway.test/blob", http.StatusTemporaryRedirect).ServeHTTP, http.StatusForbidden},
	} {
		answerAll(c.answer)
		w := f.askParts(parts)
		if w.Code != c.status || w.Code == http.StatusOK && !bytes.Equal(w.Body.Bytes(), content) {
			t.Errorf("%s: it is answered %d %v", name, w.Code, w.Header())
		}
	}
	answerAll(func(w http.ResponseWriter, r *http.Request) { // only the first range exists
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
			serve(w, r)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Error("a response without all ranges is not aborted")
		}
	}()
	f.askParts(parts)
}

// TestClientOfSeveralRangesDisconnects checks that no request to the registry continues when the client disconnects.
func TestClientOfSeveralRangesDisconnects(t *testing.T) {
	t.Parallel()
	f, content := newPartsFront(t, func(*registry.Deps) {})
	var open atomic.Int64
	began := make(chan struct{}, 10)
	f.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		open.Add(1)
		defer open.Add(-1)
		rec := httptest.NewRecorder()
		http.ServeContent(rec, r, "", time.Time{}, bytes.NewReader(content))
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:1])
		_ = http.NewResponseController(w).Flush()
		began <- struct{}{}
		<-r.Context().Done()
		return true
	})
	web := httptest.NewServer(f)
	t.Cleanup(web.Close)
	ctx, disconnect := context.WithCancel(t.Context())
	defer disconnect()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+f.name+"/blobs/"+f.layer, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=0-9,1000000-1000009,2000000-2000009,3000000-3000009,4000000-4000009")
	ended := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		ended <- err
	}()
	for range limits.BlobSpansAhead {
		<-began
	}
	if n := open.Load(); n != limits.BlobSpansAhead {
		t.Errorf("%d requests are running", n)
	}
	disconnect()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	testkit.Until(t, "all requests have ended", func() error {
		if n := open.Load(); n > 0 {
			return fmt.Errorf("%d requests are running", n)
		}
		return nil
	})
}
