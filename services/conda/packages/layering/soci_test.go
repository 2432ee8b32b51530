package layering_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/condadata"
)

// bigEnvironment returns a lock of small packages and of one whose layer gets a zTOC.
func bigEnvironment(t *testing.T) []spec.Record {
	t.Helper()
	var asked atomic.Int32
	var packed bytes.Buffer
	condadata.WriteBigPackage(t, &packed, 11)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(packed.Bytes()))
	}))
	t.Cleanup(s.Close)
	sum := sha256.Sum256(packed.Bytes())
	return append(environment(t, &asked)[:2], spec.Record{
		Name: "big", Version: "1", Build: "0", FileName: condadata.BigPackage, Size: int64(packed.Len()), SHA256: hex.EncodeToString(sum[:]), Depends: []string{},
		Channel: "lab", Subdir: "linux-64", URL: s.URL + "/" + condadata.BigPackage, Timestamp: 1700000000123,
	})
}

// bigBase returns a base image with a large and a small layer, and the content of its layers.
func bigBase(t *testing.T, reg *testkit.Registry) (layering.Base, map[digest.Digest][]byte) {
	t.Helper()
	img, contents := testkit.Image(t, "amd64", true), map[digest.Digest][]byte{}
	for _, text := range []string{condadata.Noise(t, 12), "a small file"} {
		gz, _ := testkit.Tar(t, "base/file", text)
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(gz)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer}); err != nil {
			t.Fatal(err)
		}
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		in, err := l.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		contents[digest.FromBytes(raw)] = raw
	}
	root, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	full := reg.Push(t, "library/base:1", img)
	return baseOf(t, full, digest.Digest(root.String()), img), contents
}

// site is a base image and a lock, of which a SOCI index is made.
type site struct {
	base     layering.Base
	contents map[digest.Digest][]byte // layers of the base image
	lock     []spec.Record
	opened   atomic.Int32 // how often a layer of the base image was opened
	prefetch []string     // the files that are prefetched
	found    soci.Prefetched
}

// soci returns the image of the site with a SOCI index.
func (s *site) soci(t *testing.T, m *layering.Builder) (layering.Image, soci.Image) {
	t.Helper()
	packages, err := m.Packages(t.Context(), s.lock)
	if err != nil {
		t.Fatal(err)
	}
	image, index, ok, err := m.Soci(t.Context(), layering.Indexing{
		Records: s.lock, Packages: packages, Image: environmentOf(t, m, s.base, "amd64", s.lock), Repository: "host/team/env",
		Open: func(_ context.Context, l ocispec.Descriptor) (io.ReadCloser, error) {
			s.opened.Add(1)
			return io.NopCloser(bytes.NewReader(s.contents[l.Digest])), nil
		},
		Prefetch: s.prefetch, Prefetched: func(found soci.Prefetched) { s.found = found },
	})
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	return image, index
}

func newSite(t *testing.T, reg *testkit.Registry) *site {
	t.Helper()
	base, contents := bigBase(t, reg)
	return &site{base: base, contents: contents, lock: bigEnvironment(t)}
}

// TestSociIsAFunctionOfTheImage checks that the SOCI index does not depend on whether zTOCs are
// recorded while layers are compressed, are read from layers, or were pushed by another worker, and
// that the large layers have one each.
func TestSociIsAFunctionOfTheImage(t *testing.T) {
	t.Parallel()
	ctx, reg := t.Context(), testkit.NewRegistry(t, testkit.Open)
	s, target := newSite(t, reg), at(t, reg, "team/env:1")
	recording := newBuilder(t, t.TempDir())
	recording.Ztocs = true
	image, first := s.soci(t, recording)
	if len(first.Ztocs) != 2 || s.opened.Load() != 1 {
		t.Fatalf("%d zTOCs, %d layers of the base image were read", len(first.Ztocs), s.opened.Load())
	}
	if _, again := s.soci(t, recording); again.Root.Digest != first.Root.Digest || s.opened.Load() != 1 {
		t.Errorf("the second image is another, or layers were read again")
	}
	dir := t.TempDir()
	_, read := s.soci(t, newBuilder(t, dir))
	if diff := cmp.Diff(first, read); diff != "" {
		t.Errorf("zTOCs that are read differ:\n%s", diff)
	}
	if m, err := oci.ParseManifest(image.Manifest); err != nil || m.Annotations[soci.IndexAnnotation] != first.Index.Digest.String() {
		t.Errorf("%+v, %v", m.Annotations, err)
	}
	if !soci.IsRoot(first.Root, image.Manifest, image.Platform) {
		t.Error("the index is not that of the manifest")
	}
	if _, err := recording.Push(ctx, untagged{target}, image); err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		sent, err := recording.PushSoci(ctx, target, first)
		if err != nil || (sent == 0) != (want == 1) {
			t.Errorf("%d bytes of zTOCs were sent: %v", sent, err)
		}
	}
	if err := target.Manifest(ctx, first.Root, true); err != nil {
		t.Fatal(err)
	}
}

// TestPrefetchIsAFunctionOfTheImage checks that the prefetch artifacts do not depend on where the layers and their
// zTOCs come from, that they respect small layers, and that they are pushed.
func TestPrefetchIsAFunctionOfTheImage(t *testing.T) {
	t.Parallel()
	reg := testkit.NewRegistry(t, testkit.Open)
	s, target := newSite(t, reg), at(t, reg, "team/env:1")
	recording := newBuilder(t, t.TempDir())
	recording.Ztocs = true
	image, without := s.soci(t, recording)
	s.prefetch = []string{"/base/file", "/opt/conda/lib/big", "/none", "/opt/conda/conda-meta/history"}
	_, first := s.soci(t, recording)
	if first.Index.Digest == without.Index.Digest || len(first.Prefetch) != 1 || len(first.Ztocs) != 2 {
		t.Fatalf("%d prefetch artifacts, %+v", len(first.Prefetch), s.found)
	}
	// /base/file is in a large layer and in a small one above it; the history is in the image's own layer.
	if s.found.Files != 1 || s.found.Whole != 2 || len(s.found.Missing) != 1 || s.found.Missing[0].Path != "/none" {
		t.Errorf("%+v", s.found)
	}
	_, read := s.soci(t, newBuilder(t, t.TempDir()))
	if diff := cmp.Diff(first, read); diff != "" {
		t.Errorf("a worker that has no layers makes another SOCI index:\n%s", diff)
	}
	if _, err := recording.Push(t.Context(), untagged{target}, image); err != nil {
		t.Fatal(err)
	}
	if _, err := recording.PushSoci(t.Context(), target, first); err != nil { // the registry rejects an index without its blobs
		t.Fatal(err)
	}
}

// untagged pushes no tags.
type untagged struct{ repository }

// Manifest pushes a document by its digest.
func (r untagged) Manifest(ctx context.Context, doc oci.Document, _ bool) error {
	return r.repository.Manifest(ctx, doc, false)
}

// TestSociOfSmallLayers checks that an image without large layers gets no SOCI index.
func TestSociOfSmallLayers(t *testing.T) {
	t.Parallel()
	reg := testkit.NewRegistry(t, testkit.Open)
	var asked atomic.Int32
	lock, m := environment(t, &asked)[:1], newBuilder(t, t.TempDir())
	m.Ztocs = true
	packages, err := m.Packages(t.Context(), lock)
	if err != nil {
		t.Fatal(err)
	}
	image := environmentOf(t, m, bases(t, reg, true)["amd64"], "amd64", lock)
	same, _, ok, err := m.Soci(t.Context(), layering.Indexing{Records: lock, Packages: packages, Image: image})
	if ok || err != nil || same.Manifest.Digest != image.Manifest.Digest {
		t.Errorf("%v, %v", ok, err)
	}
}

// TestSociOfDamagedLayers checks that an image has a SOCI index without the layers of its base that can
// have no zTOC, and that other errors end the build.
func TestSociOfDamagedLayers(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.NewRegistry(t, testkit.Open))
	m := newBuilder(t, t.TempDir())
	packages, err := m.Packages(t.Context(), s.lock)
	if err != nil {
		t.Fatal(err)
	}
	image := environmentOf(t, m, s.base, "amd64", s.lock)
	layer := image.Base[2].Digest
	start := s.contents[layer][:11<<20]
	for _, c := range []struct {
		name string
		in   io.Reader
		// digest replaces that of the layer, if it is not "".
		digest  digest.Digest
		skipped int
	}{
		{"no gzip", strings.NewReader("no gzip"), digest.FromString("no gzip"), 1},
		{"a truncated layer", bytes.NewReader(start), digest.FromBytes(start), 1},
		{"changed content", bytes.NewReader(start), "", 0},
		{"an error of the registry", io.MultiReader(bytes.NewReader(start), lost{}), "", 0},
	} {
		of := image
		if c.digest != "" {
			of.Manifest = oci.NewDocument(image.Manifest.MediaType, bytes.ReplaceAll(image.Manifest.Bytes, []byte(layer), []byte(c.digest)))
		}
		skipped := 0
		_, index, ok, err := m.Soci(t.Context(), layering.Indexing{
			Records: s.lock, Packages: packages, Image: of, Repository: c.name,
			Open:    func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) { return io.NopCloser(c.in), nil },
			Skipped: func(ocispec.Descriptor, error) { skipped++ },
		})
		if skipped != c.skipped || ok != (c.skipped > 0) || (err == nil) != ok || ok && len(index.Ztocs) != 1 {
			t.Errorf("%s: %d layers were skipped, %d have a zTOC: %v", c.name, skipped, len(index.Ztocs), err)
		}
		if c.name == "an error of the registry" && !errors.Is(err, errRead) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

var errRead = errors.New("the connection was lost")

type lost struct{}

func (lost) Read([]byte) (int, error) { return 0, errRead }

// TestGenuineSoci checks with the library of soci-snapshotter that an image is the one that it makes,
// and that it reads 1,000 random ranges of each indexed layer. SLIPWAY_TEST_CLIENTS is a folder that
// services/tools/clients.sh has filled.
func TestGenuineSoci(t *testing.T) {
	t.Parallel()
	judge := filepath.Join(os.Getenv("SLIPWAY_TEST_CLIENTS"), "bin", "soci-judge")
	if _, err := os.Stat(judge); err != nil {
		t.Skip("NOT TESTED with soci-snapshotter: SLIPWAY_TEST_CLIENTS names no folder with bin/soci-judge; services/tools/clients.sh builds it")
	}
	ctx, s := t.Context(), newSite(t, testkit.NewRegistry(t, testkit.Open))
	m, dir := newBuilder(t, t.TempDir()), t.TempDir()
	m.Ztocs = true
	_, index := s.soci(t, m)
	s.prefetch = []string{"/opt/conda/lib/big", "/opt/conda/conda-meta/big-1-0.json"}
	_, prefetched := s.soci(t, m)
	plain := environmentOf(t, m, s.base, "amd64", s.lock)
	store := func(raw []byte) {
		name := filepath.Join(dir, "blobs", "sha256", digest.FromBytes(raw).Encoded())
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, raw, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, doc := range []oci.Document{plain.Manifest, plain.Config, index.Manifest, index.Index, index.Config, index.Root, prefetched.Manifest, prefetched.Index, prefetched.Root} {
		store(doc.Bytes)
	}
	for _, a := range prefetched.Prefetch {
		store(a.Document.Bytes)
	}
	for _, raw := range s.contents {
		store(raw)
	}
	blobs := append(plain.Layers, plain.Own)
	for _, z := range index.Ztocs {
		blobs = append(blobs, layering.Layer{Digest: z.Digest})
	}
	for _, l := range blobs {
		if l.Digest == plain.Own.Digest {
			store(plain.OwnBlob)
			continue
		}
		blob, err := m.Store.Open(ctx, l)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(blob)
		if err := errors.Join(err, blob.Close()); err != nil {
			t.Fatal(err)
		}
		store(raw)
	}
	made := judged(t, judge, "convert", dir, plain.Manifest.Digest.String(), "linux/amd64", soci.Tool)
	if !strings.HasSuffix(strings.TrimSpace(made), index.Root.Digest.String()) {
		t.Errorf("the library makes %s instead of %s:\n%s", made, index.Root.Digest, index.Root.Bytes)
	}
	t.Log(judged(t, judge, "image", dir, index.Root.Digest.String(), "1000", "1"))
	made = judged(t, judge, append([]string{"convert", dir, plain.Manifest.Digest.String(), "linux/amd64", soci.Tool}, s.prefetch...)...)
	if !strings.HasSuffix(strings.TrimSpace(made), prefetched.Root.Digest.String()) {
		t.Errorf("with files to prefetch, the library makes %s instead of %s:\n%s", made, prefetched.Root.Digest, prefetched.Index.Bytes)
	}
	found := judged(t, judge, "image", dir, prefetched.Root.Digest.String(), "10", "1")
	if !strings.Contains(found, "prefetch sha256:") {
		t.Errorf("the library reads no prefetch artifact: %s", found)
	}
}

func judged(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"TZ=UTC", "TMPDIR=" + t.TempDir()} // the library stores times in the local time zone
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, out)
	}
	return string(out)
}
