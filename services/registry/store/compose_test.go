package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

// noise returns random bytes.
func noise(seed uint64, n int) []byte {
	var key [32]byte
	key[0] = byte(seed)
	out := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(out)
	return out
}

// exchange sends a request with a login, and returns the response with its body.
func (s *served) exchange(t testing.TB, l upstream.Login, method, path string, body []byte, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.host+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(l.Username, l.Password)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil && method != http.MethodHead {
		got = append(got, "("+err.Error()+")"...)
	}
	return resp, got
}

func ownLogin() upstream.Login { return upstream.Login{Username: "slipway", Password: "secret"} }

// upload uploads a blob, or a document as which is the media type, and returns the status of the PUT.
func (s *served) upload(t testing.TB, l upstream.Login, repository string, d digest.Digest, content []byte, mediaType string) (status int, message string) {
	t.Helper()
	resp, _ := s.exchange(t, l, http.MethodPost, "/v2/"+repository+"/blobs/uploads/", nil)
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("starting an upload returned %d", resp.StatusCode)
	}
	path := resp.Header.Get("Location") + "?digest=" + d.String()
	if mediaType != "" {
		path += "&mediaType=" + url.QueryEscape(mediaType)
	}
	resp, body := s.exchange(t, l, http.MethodPut, path, content)
	return resp.StatusCode, string(body)
}

func (s *served) blob(t testing.TB, repository string, content []byte) digest.Digest {
	t.Helper()
	d := digest.FromBytes(content)
	if status, why := s.upload(t, ownLogin(), repository, d, content, ""); status != http.StatusCreated {
		t.Fatalf("uploading returned %d %s", status, why)
	}
	return d
}

func document(t testing.TB, pieces ...oci.Piece) []byte {
	t.Helper()
	raw, err := json.Marshal(oci.Composition{MediaType: oci.TypeComposition, Pieces: pieces})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A composedBlob is a blob that is composed in the repository.
type composedBlob struct {
	content []byte
	digest  digest.Digest
	parts   []digest.Digest
	pieces  []oci.Piece
}

const big = limits.StoredManifest/2 + 1000

// compose uploads two parts and composes a blob of them.
func (s *served) compose(t testing.TB, repository string, seed uint64) composedBlob {
	t.Helper()
	a, b := noise(1, big), noise(seed, big)
	out := composedBlob{parts: []digest.Digest{s.blob(t, repository, a), s.blob(t, repository, b)}}
	add := func(which, offset, length int) {
		out.pieces = append(out.pieces, oci.Piece{Digest: out.parts[which], Offset: int64(offset), Length: int64(length)})
		out.content = append(out.content, [][]byte{a, b}[which][offset:offset+length]...)
	}
	add(1, 0, 1)
	add(0, 7, big-8)
	add(1, 1, 100_000)
	add(1, 100_001, 1)
	add(1, 100_100, big-100_100)
	add(0, 0, 7)
	out.digest = digest.FromBytes(out.content)
	if status, why := s.upload(t, ownLogin(), repository, out.digest, document(t, out.pieces...), oci.TypeComposition); status != http.StatusCreated {
		t.Fatalf("composing returned %d %s", status, why)
	}
	return out
}

// artifact pushes a manifest whose layer is a blob, and returns its digest.
func (s *served) artifact(t testing.TB, repository, tag string, layer composedBlob) digest.Digest {
	t.Helper()
	config := s.blob(t, repository, []byte("{}"))
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.Descriptor{MediaType: "application/x", Digest: config, Size: 2},
		Layers: []ocispec.Descriptor{{MediaType: "application/y", Digest: layer.digest, Size: int64(len(layer.content))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if resp, why := s.exchange(t, ownLogin(), http.MethodPut, "/v2/"+repository+"/manifests/"+tag, raw, "Content-Type", ocispec.MediaTypeImageManifest); resp.StatusCode != http.StatusCreated {
		t.Fatalf("pushing the manifest returned %d %s", resp.StatusCode, why)
	}
	return digest.FromBytes(raw)
}

func (s *served) file(repository string, d digest.Digest) string {
	return filepath.Join(s.dir, "images", repository, "blobs", d.Algorithm().String(), d.Encoded())
}

// whole checks that a composed blob can be read.
func (s *served) whole(t testing.TB, repository string, b composedBlob) {
	t.Helper()
	resp, got := s.exchange(t, ownLogin(), http.MethodGet, "/v2/"+repository+"/blobs/"+b.digest.String(), nil)
	if resp.StatusCode != http.StatusOK || !bytes.Equal(got, b.content) {
		t.Errorf("the blob has %d bytes (status %d), want %d", len(got), resp.StatusCode, len(b.content))
	}
}

// TestCompose compares a composed blob and its ranges with the joined bytes.
func TestCompose(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	before, err := s.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b := s.compose(t, "builds", 2)
	if after, err := s.Bytes(); err != nil || after-before > 2*big+3000 {
		t.Errorf("%d bytes are stored (%v)", after-before, err)
	}
	s.whole(t, "builds", b)
	url := "/v2/builds/blobs/" + b.digest.String()
	head, _ := s.exchange(t, ownLogin(), http.MethodHead, url, nil)
	if head.StatusCode != http.StatusOK || head.ContentLength != int64(len(b.content)) || head.Header.Get("Docker-Content-Digest") != b.digest.String() {
		t.Errorf("HEAD returned %d, %d bytes", head.StatusCode, head.ContentLength)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		from := r.IntN(len(b.content))
		to := min(from+r.IntN(300_000), len(b.content)-1)
		resp, got := s.exchange(t, ownLogin(), http.MethodGet, url, nil, "Range", fmt.Sprintf("bytes=%d-%d", from, to))
		if resp.StatusCode != http.StatusPartialContent || !bytes.Equal(got, b.content[from:to+1]) {
			t.Fatalf("the range %d-%d returned %d with %d bytes", from, to, resp.StatusCode, len(got))
		}
	}
	if resp, _ := s.exchange(t, ownLogin(), http.MethodGet, url, nil, "Range", fmt.Sprintf("bytes=%d-", len(b.content))); resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range behind the end returned %d", resp.StatusCode)
	}
	s.artifact(t, "builds", "1", b)
	images, err := s.Images()
	if err != nil || len(images) != 1 || images[0].Size < int64(len(b.content)) || images[0].Size > 2*big+3000 {
		t.Errorf("the store lists %v (%v)", images, err)
	}
}

// TestComposeMultipleRanges requests several ranges at once.
func TestComposeMultipleRanges(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	b := s.compose(t, "builds", 2)
	resp, got := s.exchange(t, ownLogin(), http.MethodGet, "/v2/builds/blobs/"+b.digest.String(), nil, "Range", fmt.Sprintf("bytes=0-5,%d-%d,-9", big-20, big+20))
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || resp.StatusCode != http.StatusPartialContent {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	in := multipart.NewReader(bytes.NewReader(got), params["boundary"])
	for _, want := range [][]byte{b.content[:6], b.content[big-20 : big+21], b.content[len(b.content)-9:]} {
		part, err := in.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := io.ReadAll(part); err != nil || !bytes.Equal(raw, want) {
			t.Errorf("a range has %d bytes, %v", len(raw), err)
		}
	}
}

// TestComposeMount mounts a composed blob in another repository, where it remains when the first deletes
// it.
func TestComposeMount(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	b := s.compose(t, "builds/one", 2)
	before := s.size(t)
	if resp, why := s.exchange(t, ownLogin(), http.MethodPost, "/v2/builds/two/blobs/uploads/?mount="+b.digest.String()+"&from=builds/one", nil); resp.StatusCode != http.StatusCreated {
		t.Fatalf("mounting returned %d %s", resp.StatusCode, why)
	}
	if after, err := s.Bytes(); err != nil || after-before > 2000 {
		t.Errorf("a mounted blob uses %d bytes (%v)", after-before, err)
	}
	s.artifact(t, "builds/two", "1", b)
	s.age(t, 25*time.Hour)
	if resp, _ := s.exchange(t, ownLogin(), http.MethodHead, "/v2/builds/two/manifests/1", nil); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	s.collect(t, keep())
	if _, err := os.Lstat(s.file("builds/one", b.digest)); !os.IsNotExist(err) {
		t.Errorf("the first repository has the blob: %v", err)
	}
	s.whole(t, "builds/two", b)
}

// TestComposeCollect checks that the parts of a composed blob are retained as long as the blob is, and are
// deleted after that.
func TestComposeCollect(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	b, other := s.compose(t, "builds", 2), s.compose(t, "builds", 3)
	s.artifact(t, "builds", "1", b)
	s.age(t, 2*time.Hour)
	if got := s.collect(t, keep()); len(got.Images) != 0 {
		t.Errorf("removed is %+v", got)
	}
	s.whole(t, "builds", b)
	if _, err := os.Lstat(s.file("builds", other.digest)); !os.IsNotExist(err) {
		t.Errorf("a blob without an image remains: %v", err)
	}
	if _, err := os.Lstat(s.file("builds", other.parts[1])); !os.IsNotExist(err) {
		t.Errorf("its part remains: %v", err)
	}
	s.age(t, 25*time.Hour)
	if got := s.collect(t, keep()); len(got.Images) != 1 || got.Left > 1000 {
		t.Errorf("Collect returned %+v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "images/builds/_composed/*/*")); len(left) != 0 {
		t.Errorf("lists of pieces remain: %q", left)
	}
}

// TestComposeCollectBetweenPushes looks a composed blob up, as a client does that pushes an image with
// it. Its parts must not be deleted before the image is pushed.
func TestComposeCollectBetweenPushes(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	b := s.compose(t, "builds", 2)
	s.age(t, 2*time.Hour)
	if resp, _ := s.exchange(t, ownLogin(), http.MethodHead, "/v2/builds/blobs/"+b.digest.String(), nil); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	s.collect(t, keep())
	s.artifact(t, "builds", "1", b)
	s.whole(t, "builds", b)
}

// TestComposeAfterKill leaves the files of a process that was killed between the steps of a composition
// or a collection.
func TestComposeAfterKill(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(s *served, b composedBlob) error{
		"before the link":  func(s *served, b composedBlob) error { return os.Remove(s.file("builds", b.digest)) },
		"without the list": func(s *served, b composedBlob) error { return os.Remove(s.list("builds", b.digest)) },
		"an empty list":    func(s *served, b composedBlob) error { return os.Truncate(s.list("builds", b.digest), 0) },
		"without a part":   func(s *served, b composedBlob) error { return os.Remove(s.file("builds", b.parts[1])) },
		"a shorter part":   func(s *served, b composedBlob) error { return os.Truncate(s.file("builds", b.parts[1]), 99) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServedStore(t)
			b := s.compose(t, "builds", 2)
			manifest := s.artifact(t, "builds", "1", b)
			if err := kill(s, b); err != nil {
				t.Fatal(err)
			}
			s.Store = store.New(s.dir, ownLogin(), slog.New(slog.DiscardHandler))
			s.serve(t)
			blob := "/v2/builds/blobs/" + b.digest.String()
			if resp, got := s.exchange(t, ownLogin(), http.MethodGet, blob, nil); resp.StatusCode != http.StatusNotFound {
				t.Errorf("the blob returned %d with %d bytes", resp.StatusCode, len(got))
			}
			if resp, _ := s.exchange(t, ownLogin(), http.MethodHead, blob, nil); resp.StatusCode != http.StatusNotFound {
				t.Errorf("HEAD returned %d", resp.StatusCode)
			}
			if name != "before the link" { // an ordinary lost file
				for _, ref := range []string{"1", manifest.String()} {
					if resp, _ := s.exchange(t, ownLogin(), http.MethodGet, "/v2/builds/manifests/"+ref, nil); resp.StatusCode != http.StatusNotFound {
						t.Errorf("the manifest %s returned %d", ref, resp.StatusCode)
					}
				}
			}
			s.collect(t, keep())
			_ = os.Remove(s.file("builds", b.parts[1])) // a shorter file is not noticed by an upload's HEAD
			again := s.compose(t, "builds", 2)
			s.whole(t, "builds", again)
			if resp, _ := s.exchange(t, ownLogin(), http.MethodGet, "/v2/builds/manifests/1", nil); resp.StatusCode != http.StatusOK {
				t.Errorf("after another push the manifest returned %d", resp.StatusCode)
			}
		})
	}
	// A list without a link, and a link without a list, are deleted.
	s := newServedStore(t)
	b, other := s.compose(t, "builds", 2), s.compose(t, "builds", 3)
	if err := os.Remove(s.file("builds", b.digest)); err != nil {
		t.Fatal(err)
	}
	s.age(t, 2*time.Hour)
	if err := os.Remove(s.list("builds", other.digest)); err != nil {
		t.Fatal(err)
	}
	old := keep()
	old.Unnamed = -time.Minute // the time of a link cannot be set
	if got := s.collect(t, old); got.Left > 1000 {
		t.Errorf("%d bytes remain", got.Left)
	}
}

func (s *served) list(repository string, d digest.Digest) string {
	return filepath.Join(s.dir, "images", repository, "_composed", d.Algorithm().String(), d.Encoded())
}

// TestComposeSlowly repeats the request for a composition until it is verified.
func TestComposeSlowly(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	s.VerifyWithin(0)
	a, b := noise(1, big), noise(2, big)
	pieces := []oci.Piece{{Digest: s.blob(t, "builds", a), Length: big}, {Digest: s.blob(t, "builds", b), Length: big}}
	content := append(append([]byte{}, a...), b...)
	for d, want := range map[digest.Digest]int{digest.FromBytes(content): http.StatusCreated, digest.FromString("x"): http.StatusBadRequest} {
		resp, _ := s.exchange(t, ownLogin(), http.MethodPost, "/v2/builds/blobs/uploads/", nil)
		path := resp.Header.Get("Location") + "?mediaType=" + url.QueryEscape(oci.TypeComposition) + "&digest=" + d.String()
		first, _ := s.exchange(t, ownLogin(), http.MethodPut, path, document(t, pieces...))
		for _, method := range []string{http.MethodPatch, http.MethodDelete} { // the verified content must not change
			if resp, _ := s.exchange(t, ownLogin(), method, path, []byte(" {}")); resp.StatusCode != http.StatusConflict {
				t.Errorf("%s during a verification returned %d", method, resp.StatusCode)
			}
		}
		if resp, _ := s.exchange(t, ownLogin(), http.MethodPut, strings.Replace(path, "builds", "others", 1), nil); resp.StatusCode != http.StatusConflict {
			t.Errorf("in another repository it returned %d", resp.StatusCode)
		}
		status := first.StatusCode
		for status == http.StatusAccepted {
			again, _ := s.exchange(t, ownLogin(), http.MethodPut, path, nil)
			status = again.StatusCode
		}
		if first.StatusCode != http.StatusAccepted || status != want {
			t.Errorf("the first response is %d, the last %d, want %d", first.StatusCode, status, want)
		}
		if resp, _ := s.exchange(t, s.Grant(grant("builds", "eeee", "eeee_1")), http.MethodPut, path, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("another's upload returned %d", resp.StatusCode)
		}
	}
	s.whole(t, "builds", composedBlob{content: content, digest: digest.FromBytes(content)})
}
