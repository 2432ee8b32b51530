package conda_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	registry "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	engine "slipway.dev/services/builder/engine/conda"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/condadata"
)

func indexed(j *jobs.Job) { j.Recipe.Soci = true }

// big returns a lock with a package whose layer gets a zTOC, on a base image with such a layer.
func (b *bench) big() []spec.Record {
	b.t.Helper()
	var packed bytes.Buffer
	condadata.WriteBigPackage(b.t, &packed, 11)
	b.respond = func(w http.ResponseWriter, r *http.Request) bool {
		if path.Base(r.URL.Path) != condadata.BigPackage {
			return false
		}
		b.asked.Add(1)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(packed.Bytes()))
		return true
	}
	gz, _ := testkit.Tar(b.t, "base/big", condadata.Noise(b.t, 12))
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(gz)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		b.t.Fatal(err)
	}
	img, err := mutate.Append(testkit.Image(b.t, "amd64", true), mutate.Addendum{Layer: layer, MediaType: types.OCILayer})
	if err != nil {
		b.t.Fatal(err)
	}
	b.images.Push(b.t, "library/base:big", img)
	d, err := img.Digest()
	if err != nil {
		b.t.Fatal(err)
	}
	b.base = &containerv1.Source{Registry: b.images.Host, Repository: "library/base", Reference: d.String()}
	sum := sha256.Sum256(packed.Bytes())
	return append(b.curl(), spec.Record{
		Name: "big", Version: "1", Build: "0", Depends: []string{}, FileName: condadata.BigPackage, Size: int64(packed.Len()), SHA256: hex.EncodeToString(sum[:]),
		Channel: "lab", Subdir: "linux-64", URL: b.channel.URL + "/lab/linux-64/" + condadata.BigPackage, Timestamp: 1700000000123,
	})
}

// sociOf checks that the image with the tag 1 has a digest and a SOCI index, and that each document and
// blob of the index is in the repository.
func (b *bench) sociOf(want string) {
	b.t.Helper()
	repo, err := name.NewRepository(b.images.Host+"/team/env", name.Insecure)
	if err != nil {
		b.t.Fatal(err)
	}
	root, err := registry.Index(repo.Tag("1"))
	if err != nil {
		b.t.Fatal(err)
	}
	x, err := root.IndexManifest()
	if d, _ := root.Digest(); err != nil || len(x.Manifests) != 2 || d.String() != want || x.Manifests[1].ArtifactType != soci.TypeIndex {
		b.t.Fatalf("%s instead of %s: %+v, %v", d, want, x, err)
	}
	m, err := b.tagged("1", "amd64").Manifest()
	if err != nil || m.Annotations[soci.IndexAnnotation] != x.Manifests[1].Digest.String() {
		b.t.Fatalf("%+v, %v", m, err)
	}
	index, err := registry.Image(repo.Digest(x.Manifests[1].Digest.String()))
	if err != nil {
		b.t.Fatal(err)
	}
	layers, err := index.Layers()
	if err != nil || len(layers) != 2 {
		b.t.Fatalf("%d zTOCs, %v", len(layers), err)
	}
	for _, l := range layers {
		in, err := l.Compressed()
		if err != nil {
			b.t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, in); n == 0 || err != nil {
			b.t.Errorf("a zTOC has %d bytes: %v", n, err)
		}
	}
}

// TestSoci checks that the image of a recipe with soci has a SOCI index, that it is the same on each
// worker whatever the worker has to read for it, and that its layers are those of the image without.
func TestSoci(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	lock, dir := b.big(), t.TempDir()
	if _, err := b.engine(dir).Build(t.Context(), b.job(lock), &lines{}); err != nil {
		t.Fatal(err)
	}
	plain, err := b.pulled("amd64").Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var out lines
	first, err := b.sharing(nc).Build(t.Context(), b.job(lock, indexed), &out)
	if err != nil {
		t.Fatal(err)
	}
	b.sociOf(first)
	if !strings.Contains(out.String(), "The SOCI index covers 2 layers") {
		t.Errorf("the log does not report the SOCI index:\n%s", out.String())
	}
	with, err := b.pulled("amd64").Manifest()
	if err != nil || len(with.Layers) != len(plain.Layers) || with.Config.Digest != plain.Config.Digest {
		t.Errorf("%+v, %v", with, err)
	}
	asked := b.asked.Load()
	for _, w := range []struct {
		name string
		*engine.Engine
	}{
		{"a worker that has the layers", b.engine(dir)},
		{"a worker that has the zTOCs", b.engine(dir)},
		{"a worker that uses those of another", b.sharing(nc)},
		{"a worker without layers", b.engine(t.TempDir())},
	} {
		if again, err := w.Build(t.Context(), b.job(lock, indexed), &lines{}); again != first || err != nil {
			t.Errorf("%s: %s instead of %s: %v", w.name, again, first, err)
		}
	}
	if n := b.asked.Load() - asked; n != int32(len(lock)) {
		t.Errorf("the channel was asked %d times; one worker had no layers", n)
	}
	again, err := b.engine(t.TempDir()).Rebuild(t.Context(), b.job(lock, indexed, func(j *jobs.Job) { j.Target = nil }), &lines{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := b.tagged("1", "amd64").Digest()
	if manifest := digest.FromBytes(again.Manifest); err != nil || manifest.String() != want.String() {
		t.Errorf("the image was built again as %s instead of %s: %v", manifest, want, err)
	}
}

// TestSociPrefetch checks that the SOCI index has prefetch artifacts, which are the same on each worker, and that the log
// states what is not prefetched.
func TestSociPrefetch(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	lock := b.big()
	prefetched := func(j *jobs.Job) { j.Recipe.SociPrefetch = []string{"/base/big", "/none", "/opt/conda/lib/big"} }
	plain, err := b.sharing(nc).Build(t.Context(), b.job(lock, indexed), &lines{})
	if err != nil {
		t.Fatal(err)
	}
	var out lines
	first, err := b.sharing(nc).Build(t.Context(), b.job(lock, indexed, prefetched), &out)
	if err != nil || first == plain {
		t.Fatalf("%s, %v", first, err)
	}
	for _, want := range []string{"The path /none is not prefetched: the image has no such file", "2 files are prefetched, from 2 layers"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, out.String())
		}
	}
	if again, err := b.engine(t.TempDir()).Build(t.Context(), b.job(lock, indexed, prefetched), &lines{}); again != first || err != nil {
		t.Errorf("a worker without layers makes %s instead of %s: %v", again, first, err)
	}
}

// TestSociAndMount checks that an image can have both: the environment refers to the manifest with the
// SOCI index.
func TestSociAndMount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lock := b.big()
	first, err := b.engine(t.TempDir()).Build(t.Context(), b.job(lock, indexed, mounted), &lines{})
	if err != nil {
		t.Fatal(err)
	}
	b.sociOf(first)
	image, err := b.tagged("1", "amd64").Digest()
	if err != nil {
		t.Fatal(err)
	}
	b.artifact(image.String(), len(lock))
}

// TestSociOfFrozenImages checks that the SOCI index of a frozen image covers the added layers.
func TestSociOfFrozenImages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lock := b.big()
	gz, plain := testkit.Tar(t, "added", condadata.Noise(t, 13))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(gz) }))
	t.Cleanup(server.Close)
	size := int64(len(gz))
	frozen := func(j *jobs.Job) {
		j.Recipe.Config = &containerv1.ContainerConfig{Env: []string{"A=b"}, Layers: []*containerv1.Layer{
			{Location: server.URL + "/x.tar.gz", GzipDigest: digest.FromBytes(gz).String(), TarDigest: digest.FromBytes(plain).String(), GzipSize: &size},
		}}
	}
	if _, err := b.engine(t.TempDir()).Build(t.Context(), b.job(lock, indexed, frozen), &lines{}); err != nil {
		t.Fatal(err)
	}
	m, err := b.pulled("amd64").Manifest()
	if err != nil {
		t.Fatal(err)
	}
	repo, err := name.NewRepository(b.images.Host+"/team/env", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := registry.Image(repo.Digest(m.Annotations[soci.IndexAnnotation]))
	if err != nil {
		t.Fatal(err)
	}
	x, err := index.Manifest()
	if err != nil || len(x.Layers) != 3 || x.Layers[2].Annotations[soci.LayerAnnotation] != digest.FromBytes(gz).String() {
		t.Errorf("%+v, %v", x, err)
	}
}
