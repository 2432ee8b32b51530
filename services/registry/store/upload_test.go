package store_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

// send sends a request with a login and headers (name, value, …).
func (s *served) send(t testing.TB, l upstream.Login, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(l.Username, l.Password)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

var service = upstream.Login{Username: "slipway", Password: "secret"}

// TestUpload covers the uploads of the distribution specification.
func TestUpload(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	const content = "the content of a blob"
	d := digest.FromString(content).String()
	begun := s.send(t, service, "POST", "/v2/builds/tool/blobs/uploads/", "")
	at := begun.Header.Get("Location")
	if begun.StatusCode != http.StatusAccepted || !strings.HasPrefix(at, "/v2/builds/tool/blobs/uploads/") {
		t.Fatalf("starting an upload: %d, %q", begun.StatusCode, at)
	}
	for _, tc := range []struct {
		name, method, path, body, contentRange string
		want                                   int
		rangeIs                                string
	}{
		{"nothing yet", "GET", at, "", "", http.StatusNoContent, "0-0"},
		{"a first part", "PATCH", at, content[:5], "0-4", http.StatusAccepted, "0-4"},
		{"the same again", "PATCH", at, content[:5], "0-4", http.StatusRequestedRangeNotSatisfiable, "0-4"},
		{"a gap", "PATCH", at, content[7:], "7-20", http.StatusRequestedRangeNotSatisfiable, "0-4"},
		{"no range", "PATCH", at, content[:5], "first-4", http.StatusRequestedRangeNotSatisfiable, "0-4"},
		{"another part", "PATCH", at, content[5:9], "", http.StatusAccepted, "0-8"},
		{"the status", "GET", at, "", "", http.StatusNoContent, "0-8"},
		{"another method", "POST", at, "", "", http.StatusMethodNotAllowed, ""},
		{"no digest", "PUT", at, content[9:], "", http.StatusBadRequest, ""},
		{"the end", "PUT", at + "?digest=" + d, content[9:], "9-20", http.StatusCreated, ""},
		{"the blob", "GET", "/v2/builds/tool/blobs/" + d, "", "", http.StatusOK, ""},
		{"after the end", "GET", at, "", "", http.StatusNotFound, ""},
		{"an unknown upload", "PATCH", "/v2/builds/tool/blobs/uploads/ABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789abcdef", "x", "", http.StatusNotFound, ""},
		{"a path", "PATCH", "/v2/builds/tool/blobs/uploads/..%2findex.json", "x", "", http.StatusNotFound, ""},
	} {
		headers := []string{}
		if tc.contentRange != "" {
			headers = []string{"Content-Range", tc.contentRange}
		}
		r := s.send(t, service, tc.method, tc.path, tc.body, headers...)
		if r.StatusCode != tc.want || tc.rangeIs != "" && r.Header.Get("Range") != tc.rangeIs {
			raw, _ := io.ReadAll(r.Body)
			t.Errorf("%s: answered %d, Range %q, want %d, %q: %s", tc.name, r.StatusCode, r.Header.Get("Range"), tc.want, tc.rangeIs, raw)
		}
	}
	// An interrupted upload can be continued.
	half := s.send(t, service, "POST", "/v2/builds/tool/blobs/uploads/", "").Header.Get("Location")
	c, err := net.Dial("tcp", s.host)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(c, "PATCH %s HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\nAuthorization: Basic c2xpcHdheTpzZWNyZXQ=\r\n\r\n%s", half, content[:7])
	_ = c.(*net.TCPConn).CloseWrite()
	if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != http.StatusBadRequest {
		t.Errorf("an interrupted body returned %v, %v", r, err)
	}
	_ = c.Close()
	if r := s.send(t, service, "GET", half, ""); r.Header.Get("Range") != "0-6" {
		t.Errorf("the Range is %q", r.Header.Get("Range"))
	}
	if r := s.send(t, service, "PUT", half+"?digest="+d, content[7:]); r.StatusCode != http.StatusCreated {
		t.Errorf("its end is answered %d", r.StatusCode)
	}
	wrong := s.send(t, service, "POST", "/v2/builds/tool/blobs/uploads/", "").Header.Get("Location")
	if r := s.send(t, service, "PUT", wrong+"?digest="+d, "something else"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("content with another digest returned %d", r.StatusCode)
	}
	given := s.send(t, service, "POST", "/v2/builds/tool/blobs/uploads/", "").Header.Get("Location")
	if r := s.send(t, service, "DELETE", given, ""); r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE returned %d", r.StatusCode)
	}
	if left, err := os.ReadDir(filepath.Join(s.dir, "images/builds/tool/_uploads")); err != nil || len(left) != 0 {
		t.Errorf("%v remains (%v)", left, err)
	}
	if r := s.send(t, service, "POST", "/v2/Builds/blobs/uploads/", ""); r.StatusCode < 400 || r.StatusCode >= 500 {
		t.Errorf("an invalid repository name returned %d", r.StatusCode)
	}
}

// TestUploadSurvivesRestart verifies that an upload can be continued after a restart, and
// is deleted when it is abandoned.
func TestUploadSurvivesRestart(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	const content = "the content of a blob"
	begin := func() string {
		return s.send(t, service, "POST", "/v2/builds/blobs/uploads/", "").Header.Get("Location")
	}
	at, left := begin(), begin()
	s.send(t, service, "PATCH", at, content[:5])
	again := httptest.NewServer(store.New(s.dir, service, testkit.Log(t)))
	defer again.Close()
	s.host = strings.TrimPrefix(again.URL, "http://")
	if r := s.send(t, service, "PUT", at+"?digest="+digest.FromString(content).String(), content[5:]); r.StatusCode != http.StatusCreated {
		t.Errorf("it is answered %d", r.StatusCode)
	}
	other := begin()
	s.age(t, 2*time.Hour)
	if r := s.send(t, service, "PATCH", other, "x"); r.StatusCode != http.StatusAccepted {
		t.Errorf("a late PATCH returned %d", r.StatusCode)
	}
	if err := s.DropUploads(time.Now().Add(-time.Hour)); err != nil {
		t.Error(err)
	}
	for at, want := range map[string]int{left: http.StatusNotFound, other: http.StatusNoContent} {
		if r := s.send(t, service, "GET", at, ""); r.StatusCode != want {
			t.Errorf("%s is answered %d, want %d", at, r.StatusCode, want)
		}
	}
	s.age(t, 2*time.Hour)
	s.collect(t, keep())
	if r := s.send(t, service, "GET", other, ""); r.StatusCode != http.StatusNotFound {
		t.Errorf("after its deletion: %d", r.StatusCode)
	}
}

// TestUploadOfAnother verifies that an upload is only accessible with the login that
// started it, and by one request at a time.
func TestUploadOfAnother(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	mine, other := s.Grant(grant("builds", "eeee", "eeee_1")), s.Grant(grant("builds", "ffff", "ffff_1"))
	at := s.send(t, mine, "POST", "/v2/builds/blobs/uploads/", "").Header.Get("Location")
	for _, method := range []string{"GET", "PATCH", "PUT", "DELETE"} {
		if r := s.send(t, other, method, at+"?digest="+digest.FromString("x").String(), "x"); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s of another login's upload returned %d", method, r.StatusCode)
		}
	}
	body, end := io.Pipe()
	done := make(chan int, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://"+s.host+at, body)
		if err != nil {
			t.Error(err)
			return
		}
		req.SetBasicAuth(mine.Username, mine.Password)
		if r, err := http.DefaultClient.Do(req); err == nil {
			done <- r.StatusCode
			_ = r.Body.Close()
		}
	}()
	if _, err := end.Write([]byte("some")); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the upload is busy", func() error {
		if r := s.send(t, mine, "GET", at, ""); r.StatusCode != http.StatusConflict {
			return fmt.Errorf("it is answered %d", r.StatusCode)
		}
		return nil
	})
	_ = end.Close()
	if code := <-done; code != http.StatusAccepted {
		t.Errorf("the first is answered %d", code)
	}
	if r := s.send(t, mine, "PUT", at+"?digest="+digest.FromString("something").String(), "thing"); r.StatusCode != http.StatusCreated {
		t.Errorf("its end is answered %d", r.StatusCode)
	}
}

// TestAttackUploads starts many uploads with a build's login without completing any.
func TestAttackUploads(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	s.push(t, "builds:1", onTopOf(t, layer(t, 10)))
	mine := s.Grant(grant("builds", "eeee", "eeee_1"))
	for i := range limits.Uploads {
		if r := s.send(t, mine, "POST", "/v2/builds/blobs/uploads/", ""); r.StatusCode != http.StatusAccepted {
			t.Fatalf("upload %d returned %d", i+1, r.StatusCode)
		}
	}
	if r := s.send(t, mine, "POST", "/v2/builds/blobs/uploads/", ""); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("the upload above the limit returned %d", r.StatusCode)
	}
	other := s.Grant(grant("builds", "ffff", "ffff_1"))
	if r := s.send(t, other, "POST", "/v2/builds/blobs/uploads/", ""); r.StatusCode != http.StatusAccepted {
		t.Errorf("an upload of another build returned %d", r.StatusCode)
	}
	if _, err := remote.Head(s.ref(t, "builds:1"), secret()); err != nil {
		t.Error(err)
	}
}

// TestAttackTypes verifies that the type of another build's manifest cannot be changed.
func TestAttackTypes(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	victim := onTopOf(t, layer(t, 10))
	s.push(t, "builds:aaaa", victim)
	raw, err := victim.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	d := digest.FromBytes(raw)
	indexOf := func(mediaType string) string {
		x, err := json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{{MediaType: mediaType, Digest: d, Size: int64(len(raw))}}})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(string(x), `"schemaVersion":0`, `"schemaVersion":2`, 1)
	}
	truth, err := victim.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	mine := s.Grant(grant("builds", "eeee", "eeee_1"))
	for _, tc := range []struct {
		name, body, as string
		want           int
	}{
		{"the victim's manifest as an index", string(raw), ocispec.MediaTypeImageIndex, http.StatusBadRequest},
		{"the victim's manifest as another kind", string(raw), ocispec.MediaTypeImageManifest, http.StatusBadRequest},
		{"an index that calls it an index", indexOf(ocispec.MediaTypeImageIndex), ocispec.MediaTypeImageIndex, http.StatusBadRequest},
		{"an index that calls it a text", indexOf("text/plain"), ocispec.MediaTypeImageIndex, http.StatusBadRequest},
		{"no manifest", `{"schemaVersion":2}`, ocispec.MediaTypeImageManifest, http.StatusBadRequest},
		{"no JSON", "x", "", http.StatusBadRequest},
		{"an index that says what it is", indexOf(string(truth)), ocispec.MediaTypeImageIndex, http.StatusCreated},
	} {
		r := s.send(t, mine, "PUT", "/v2/builds/manifests/eeee", tc.body, "Content-Type", tc.as)
		if r.StatusCode != tc.want {
			raw, _ := io.ReadAll(r.Body)
			t.Errorf("%s is answered %d, want %d: %s", tc.name, r.StatusCode, tc.want, raw)
		}
	}
	for _, ref := range []string{"aaaa", d.String()} {
		if r := s.send(t, service, "GET", "/v2/builds/manifests/"+ref, ""); r.Header.Get("Content-Type") != string(truth) {
			t.Errorf("%s has the type %s", ref, r.Header.Get("Content-Type"))
		}
	}
}

// TestAttackAnotherType verifies that another build cannot replace an image that has no
// annotation of its build, whatever its media type: the store's own lookup of the tag must
// accept all types.
func TestAttackAnotherType(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	first, second := s.Grant(grant("builds", "ffff", "ffff_1")), s.Grant(grant("builds", "ffff", "ffff_2"))
	put := func(l upstream.Login, img interface{ RawManifest() ([]byte, error) }, as string) int {
		raw, err := img.RawManifest()
		if err != nil {
			t.Fatal(err)
		}
		return s.send(t, l, "PUT", "/v2/builds/manifests/ffff", string(raw), "Content-Type", as).StatusCode
	}
	mine, hers := onTopOf(t, layer(t, 10)), onTopOf(t, layer(t, 10)) // of Docker's media type
	s.push(t, "builds:x", mine)
	s.push(t, "builds:y", hers)
	as, err := mine.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	if code := put(first, mine, string(as)); code != http.StatusCreated {
		t.Fatalf("the first is answered %d", code)
	}
	if code := put(second, hers, string(as)); code != http.StatusForbidden {
		t.Errorf("another image is answered %d", code)
	}
	if code := put(second, mine, string(as)); code != http.StatusCreated {
		t.Errorf("the same image is answered %d", code)
	}
}

// TestOlaregDoesNotCollect verifies that only Collect deletes images, also across restarts.
func TestOlaregDoesNotCollect(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	blob := layer(t, 1000)
	if err := remote.WriteLayer(s.ref(t, "builds:x").Context(), blob, secret()); err != nil {
		t.Fatal(err)
	}
	s.age(t, 30*time.Minute)
	d, err := blob.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again := httptest.NewServer(store.New(s.dir, service, testkit.Log(t)))
		s.host = strings.TrimPrefix(again.URL, "http://")
		s.collect(t, keep())
		if r := s.send(t, service, "HEAD", "/v2/builds/blobs/"+d.String(), ""); r.StatusCode != http.StatusOK {
			t.Errorf("a blob without an image is answered %d", r.StatusCode)
		}
		again.Close()
	}
}

func FuzzUpload(f *testing.F) {
	s := store.New(f.TempDir(), service, testkit.Log(f))
	f.Add("PATCH", "ABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789abcdef", "0-4", []byte("x"))
	f.Add("PUT", "../x", "bytes 0-1/2", []byte{})
	f.Fuzz(func(t *testing.T, method, id, contentRange string, body []byte) {
		req := httptest.NewRequest(http.MethodPost, "/v2/builds/blobs/uploads/", bytes.NewReader(body))
		req.Method, req.URL.Path = method, fmt.Sprintf("/v2/builds/blobs/uploads/%s", id)
		req.Header.Set("Content-Range", contentRange)
		req.SetBasicAuth(service.Username, service.Password)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%q %q is answered %d", method, id, w.Code)
		}
	})
}

// TestUploadTakesItsTime verifies that an upload may take longer than the server's timeout for
// reading other requests.
func TestUploadTakesItsTime(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(store.New(t.TempDir(), service, testkit.Log(t)))
	server.Config.ReadTimeout = 200 * time.Millisecond
	server.Start()
	defer server.Close()
	s := &served{host: strings.TrimPrefix(server.URL, "http://")}
	at := s.send(t, service, "POST", "/v2/builds/blobs/uploads/", "").Header.Get("Location")
	body, end := io.Pipe()
	go func() {
		_, _ = end.Write([]byte("some"))
		later, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-later.Done()
		_, _ = end.Write([]byte("thing"))
		_ = end.Close()
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL+at, body)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(service.Username, service.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted || resp.Header.Get("Range") != "0-8" {
		t.Errorf("it is answered %d, %q", resp.StatusCode, resp.Header.Get("Range"))
	}
}
