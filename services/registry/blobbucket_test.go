package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/registry"
	"slipway.dev/services/registry/blob"
)

// newBucketFront is newFront with a bucket, for an image whose layers are large enough to
// be stored in it.
func newBucketFront(t *testing.T) (*front, *testkit.S3) {
	t.Helper()
	s3 := testkit.StartS3(t)
	blobs := openBucketBlobs(t, s3)
	f := newFrontWith(t, 1000, func(d *registry.Deps) { d.Blobs = blobs })
	f.pushLarge(t)
	f.up.Requests()
	return f, s3
}

// openBucketBlobs opens a cache of blobs in a bucket, and maintains it until the test ends.
func openBucketBlobs(t *testing.T, s3 *testkit.S3) blob.Cache {
	t.Helper()
	at, err := bucket.Parse(s3.Address(s3.URL))
	if err != nil {
		t.Fatal(err)
	}
	b, err := bucket.Open(at, s3.Credentials(t))
	if err != nil {
		t.Fatal(err)
	}
	blobs := openBlobs(t, blob.Config{Bucket: b, Size: 64 << 20})
	testkit.Run(t, func(ctx context.Context) error { blobs.Run(ctx); return nil })
	return blobs
}

// pushLarge moves the tag to an image whose layers are large enough to be stored in a bucket.
func (f *front) pushLarge(t *testing.T) {
	t.Helper()
	img, err := random.Image(200<<10, 2)
	if err != nil {
		t.Fatal(err)
	}
	f.up.Push(t, "lib/tool:v1", mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}}))
	f.look(t)
}

// hasObjects returns an error unless a bucket has at least n objects beside its own records.
func hasObjects(objects map[string]int64, n int) error {
	found := 0
	for name := range objects {
		if !strings.Contains(name, ".") {
			found++
		}
	}
	if found < n {
		return fmt.Errorf("it has %d of %d objects", found, n)
	}
	return nil
}

// keep pulls a blob until it is in the bucket. The bucket's contents are listed in the
// background.
func (f *front) keep(t *testing.T, path string, s3 *testkit.S3) {
	t.Helper()
	testkit.Until(t, "the bucket", func() error {
		f.ask(http.MethodGet, path)
		for name, size := range s3.Objects(t) {
			if size == f.size && !strings.HasPrefix(name, ".") {
				f.up.Requests()
				return nil
			}
		}
		return io.ErrUnexpectedEOF
	})
}

// follow fetches the redirect target.
func follow(t *testing.T, w *httptest.ResponseRecorder, part string) (int, []byte) {
	t.Helper()
	if w.Code != http.StatusTemporaryRedirect {
		t.Fatalf("it is answered %d", w.Code)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.Header().Get("Location"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if part != "" {
		req.Header.Set("Range", part)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, content
}

// TestBlobsInABucket checks that clients are redirected to the bucket. For each request the
// registry is asked whether the login may read the blob; if it refuses or does not respond,
// the client is not redirected.
func TestBlobsInABucket(t *testing.T) {
	t.Parallel()
	f, s3 := newBucketFront(t)
	path := f.name + "/blobs/" + f.layer
	cold := f.ask(http.MethodGet, path)
	if cold.Code != http.StatusOK || digest.FromBytes(cold.Body.Bytes()).String() != f.layer {
		t.Fatalf("cold, it is answered %d", cold.Code)
	}
	f.keep(t, path, s3)
	warm := f.ask(http.MethodGet, path, "Authorization", "Bearer secret")
	if code, content := follow(t, warm, ""); code != http.StatusOK || !bytes.Equal(content, cold.Body.Bytes()) {
		t.Errorf("there, it is answered %d, %d bytes", code, len(content))
	}
	for key, values := range warm.Header() {
		if text := strings.Join(values, " "); strings.Contains(text, "secret") || strings.Contains(text, testkit.S3Secret) {
			t.Errorf("%s: %s", key, text)
		}
	}
	part := f.ask(http.MethodGet, path, "Range", "bytes=1-4")
	if code, content := follow(t, part, "bytes=1-4"); code != http.StatusPartialContent || !bytes.Equal(content, cold.Body.Bytes()[1:5]) {
		t.Errorf("there, a part is answered %d %q", code, content)
	}
	if w := f.ask(http.MethodGet, path, "Range", "bytes=999999999-"); w.Code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a part that is not there is answered %d", w.Code)
	}
	if w := f.ask(http.MethodHead, path); w.Code != http.StatusOK || w.Header().Get("Location") != "" {
		t.Errorf("HEAD is answered %d", w.Code)
	}
	if got := f.asked("/blobs/"); !slices.Equal(got, []string{"HEAD", "HEAD", "HEAD"}) {
		t.Errorf("warm, the registry is asked %q", got)
	}
	for says, want := range map[int]int{
		http.StatusUnauthorized: 401, http.StatusForbidden: 403, http.StatusNotFound: 404, http.StatusInternalServerError: 503,
	} {
		f.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(says); return true })
		if w := f.ask(http.MethodGet, path); w.Code != want || w.Header().Get("Location") != "" {
			t.Errorf("the registry says %d, and it is answered %d, want %d", says, w.Code, want)
		}
	}
	f.up.Intercept(nil)
	s3.Kill()
	for range 3 {
		if w := f.ask(http.MethodGet, path); digest.FromBytes(w.Body.Bytes()).String() != f.layer {
			t.Errorf("without the bucket it is answered %d", w.Code)
		}
	}
}

// TestClientsThatLeave checks that a blob which a client did not read to its end is not
// stored in the bucket.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	f, s3 := newBucketFront(t)
	f.keep(t, f.name+"/blobs/"+f.layer, s3) // the size of the bucket's contents is known by now
	var m v1.Manifest
	f.json(t, f.name+"/manifests/"+f.manifest, &m)
	other := m.Layers[1].Digest.String()
	ctx, leave := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, f.name+"/blobs/"+other, nil)
	f.ServeHTTP(&leaving{ResponseRecorder: httptest.NewRecorder(), leave: leave}, req)
	before := len(s3.Objects(t))
	w := f.ask(http.MethodGet, f.name+"/blobs/"+other)
	if w.Code != http.StatusOK || digest.FromBytes(w.Body.Bytes()).String() != other {
		t.Errorf("the next is answered %d, of %d objects", w.Code, before)
	}
}

// leaving is a client that reads one piece and disconnects.
type leaving struct {
	*httptest.ResponseRecorder
	leave func()
}

func (l *leaving) Write([]byte) (int, error) {
	l.leave()
	return 0, io.ErrClosedPipe
}
