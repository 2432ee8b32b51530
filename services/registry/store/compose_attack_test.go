package store_test

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// TestAttackCompositions sends compositions that must be rejected, with the login of a build.
func TestAttackCompositions(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	b, victim := s.compose(t, "builds/eve", 2), s.compose(t, "builds/victim", 3)
	l := s.Grant(grant("builds/eve", "eeee", "eeee_1"))
	part, size := b.parts[0], int64(big)
	all := func(d digest.Digest) []oci.Piece {
		return []oci.Piece{{Digest: d, Length: size}, {Digest: b.parts[1], Length: size}}
	}
	repeated := make([]oci.Piece, limits.CompositionPieces)
	for i := range repeated {
		repeated[i] = oci.Piece{Digest: part, Offset: 0, Length: size}
	}
	many := make([]oci.Piece, limits.CompositionPieces+1)
	for i := range many {
		many[i] = oci.Piece{Digest: part, Offset: int64(i), Length: 1}
	}
	for name, raw := range map[string][]byte{
		"no document":           nil,
		"another document":      []byte(`{"schemaVersion":2}`),
		"two documents":         append(document(t, b.pieces...), document(t, b.pieces...)...),
		"a huge document":       []byte(`{"mediaType":"` + strings.Repeat("x", limits.Composition) + `"}`),
		"a deep document":       []byte(strings.Repeat(`[`, 1<<20)),
		"no pieces":             document(t),
		"too many pieces":       document(t, many...),
		"a part many times":     document(t, repeated...),
		"bytes twice":           document(t, append(all(part), oci.Piece{Digest: part, Offset: size - 1, Length: 1})...),
		"an empty piece":        document(t, append(all(part), oci.Piece{Digest: part, Offset: 3})...),
		"a negative length":     document(t, append(all(part), oci.Piece{Digest: part, Offset: 3, Length: -1})...),
		"a negative offset":     document(t, append(all(b.parts[1])[1:], oci.Piece{Digest: part, Offset: -1, Length: size})...),
		"an overflow":           document(t, oci.Piece{Digest: part, Offset: math.MaxInt64, Length: math.MaxInt64}),
		"an overflow of sizes":  document(t, oci.Piece{Digest: part, Length: math.MaxInt64}, oci.Piece{Digest: b.parts[1], Length: math.MaxInt64}),
		"behind the end":        document(t, append(all(b.parts[1])[1:], oci.Piece{Digest: part, Offset: 1, Length: size})...),
		"no digest":             document(t, all("")...),
		"a path":                document(t, all("sha256:../../../victim/blobs/sha256/"+digest.Digest(victim.parts[1].Encoded()))...),
		"a missing part":        document(t, all(digest.FromString("x"))...),
		"of another repository": document(t, all(victim.parts[1])...),
		"a composed part":       document(t, all(b.digest)...),
		"a small blob":          document(t, oci.Piece{Digest: part, Length: 5}),
		"another digest":        document(t, append(all(part)[1:], all(part)[:1]...)...),
	} {
		status, why := s.upload(t, l, "builds/eve", digest.FromString(name), raw, oci.TypeComposition)
		if status != http.StatusBadRequest {
			t.Errorf("%s: returned %d %s", name, status, why)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "images/builds/eve/_uploads/*")); len(left) != 0 {
		t.Errorf("uploads remain: %q", left)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "images/builds/eve/_composed/*/*")); len(left) != 1 {
		t.Errorf("compositions were stored: %q", left)
	}
	s.whole(t, "builds/eve", b)
}

// TestAttackComposeAnothersBlob reads a blob of another repository, and continues another build's upload.
func TestAttackComposeAnothersBlob(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	victim := s.compose(t, "builds/victim", 3)
	l := s.Grant(grant("builds/eve", "eeee", "eeee_1"))
	status, _ := s.upload(t, l, "builds/eve", victim.digest, document(t, victim.pieces...), oci.TypeComposition)
	missing, _ := s.upload(t, l, "builds/eve", victim.digest, document(t, oci.Piece{Digest: digest.FromString("none"), Length: big * 2}), oci.TypeComposition)
	if status != http.StatusBadRequest || missing != status {
		t.Errorf("the victim's parts returned %d, missing ones %d", status, missing)
	}
	if resp, _ := s.exchange(t, l, http.MethodPost, "/v2/builds/eve/blobs/uploads/?mount="+victim.digest.String()+"&from=builds/victim", nil); resp.StatusCode != http.StatusAccepted {
		t.Errorf("mounting returned %d", resp.StatusCode)
	}
	resp, _ := s.exchange(t, ownLogin(), http.MethodPost, "/v2/builds/eve/blobs/uploads/", nil)
	path := resp.Header.Get("Location") + "?digest=" + victim.digest.String() + "&mediaType=" + url.QueryEscape(oci.TypeComposition)
	if resp, _ := s.exchange(t, l, http.MethodPut, path, document(t, victim.pieces...)); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another's upload returned %d", resp.StatusCode)
	}
	for _, path := range []string{"/v2/builds/eve/_composed/sha256/" + victim.digest.Encoded(), "/v2/builds/eve/blobs/sha256:../../_composed/sha256/" + victim.digest.Encoded()} {
		if resp, _ := s.exchange(t, l, http.MethodGet, path, nil); resp.StatusCode == http.StatusOK {
			t.Errorf("%s can be read", path)
		}
	}
}

// TestComposeAndUpload composes a blob that exists as a file, and uploads one that is composed.
func TestComposeAndUpload(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	b := s.compose(t, "builds", 2)
	s.artifact(t, "builds", "1", b)
	if d := s.blob(t, "builds", b.content); d != b.digest {
		t.Fatal(d)
	}
	if info, err := os.Lstat(s.file("builds", b.digest)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the uploaded blob is %v, %v", info, err)
	}
	s.whole(t, "builds", b)
	again := s.compose(t, "builds", 2)
	if info, err := os.Lstat(s.file("builds", b.digest)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the composed blob replaced the file: %v, %v", info, err)
	}
	s.whole(t, "builds", again)
}

// TestComposeConcurrently composes blobs of several builds, reads and collects them at the same time.
func TestComposeConcurrently(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	var all sync.WaitGroup
	for i := range uint64(4) {
		all.Go(func() {
			a, b := noise(1, big), noise(10+i, big)
			content := append(append([]byte{}, a...), b...)
			out := composedBlob{content: content, digest: digest.FromBytes(content)}
			l := s.Grant(grant("builds", "eeee", fmt.Sprintf("eeee_%d", i)))
			pieces := []oci.Piece{{Digest: digest.FromBytes(a), Length: big}, {Digest: digest.FromBytes(b), Length: big}}
			for _, part := range [][]byte{a, b} {
				if status, why := s.upload(t, l, "builds", digest.FromBytes(part), part, ""); status != http.StatusCreated {
					t.Errorf("uploading returned %d %s", status, why)
				}
			}
			if status, why := s.upload(t, l, "builds", out.digest, document(t, pieces...), oci.TypeComposition); status != http.StatusCreated {
				t.Errorf("composing returned %d %s", status, why)
			}
			s.collect(t, keep())
			s.whole(t, "builds", out)
		})
	}
	all.Wait()
}

// TestAttackComposedManifest composes the content of a manifest. It must not be served as a manifest, also
// not after the manifest was pushed.
func TestAttackComposedManifest(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	config := s.blob(t, "builds", []byte("{}"))
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","annotations":{"x":%q},"config":{"mediaType":"application/x","digest":%q,"size":2},"layers":[]}`,
		strings.Repeat("x", limits.ComposedLeast), config)
	part := s.blob(t, "builds", append([]byte("_"), manifest...))
	d := digest.FromBytes(manifest)
	if status, why := s.upload(t, ownLogin(), "builds", d, document(t, oci.Piece{Digest: part, Offset: 1, Length: int64(len(manifest))}), oci.TypeComposition); status != http.StatusCreated {
		t.Fatalf("composing returned %d %s", status, why)
	}
	const mediaType, indexType = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	index := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":%d}]}`, indexType, mediaType, d, len(manifest))
	if resp, _ := s.exchange(t, ownLogin(), http.MethodPut, "/v2/builds/manifests/i", index, "Content-Type", indexType); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an index of it returned %d", resp.StatusCode)
	}
	path := "/v2/builds/manifests/" + d.String()
	if resp, got := s.exchange(t, ownLogin(), http.MethodGet, path, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("as a manifest it returned %d with %d bytes", resp.StatusCode, len(got))
	}
	if resp, why := s.exchange(t, ownLogin(), http.MethodPut, path, manifest, "Content-Type", mediaType); resp.StatusCode != http.StatusCreated {
		t.Fatalf("pushing the manifest returned %d %s", resp.StatusCode, why)
	}
	for _, path := range []string{path, "/v2/builds/blobs/" + d.String()} {
		if resp, got := s.exchange(t, ownLogin(), http.MethodGet, path, nil); resp.StatusCode != http.StatusOK || digest.FromBytes(got) != d {
			t.Errorf("%s returned %d with %d bytes", path, resp.StatusCode, len(got))
		}
	}
}

// TestAttackVerifications occupies all verifications. Another build must not wait for long: it uploads its
// blob.
func TestAttackVerifications(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	b := s.compose(t, "builds", 2)
	s.QueueWithin(0)
	for range limits.Compositions {
		defer s.Verify()()
	}
	l := s.Grant(grant("builds", "eeee", "eeee_1"))
	for range 2 { // the first one must not count as running
		if status, why := s.upload(t, l, "builds", b.digest, document(t, b.pieces...), oci.TypeComposition); status != http.StatusBadRequest || !strings.Contains(why, "upload the blob") {
			t.Errorf("composing returned %d %s", status, why)
		}
	}
	if status, why := s.upload(t, l, "builds", b.digest, b.content, ""); status != http.StatusCreated {
		t.Errorf("uploading returned %d %s", status, why)
	}
}
