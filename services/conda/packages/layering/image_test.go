package layering_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// repository is a layering.Registry for a real registry.
type repository struct {
	client     *regclient.RegClient
	from, name ref.Ref
}

func (r repository) Has(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	there, err := r.client.BlobHead(ctx, r.name, described(d))
	if err != nil {
		return false, nil //nolint:nilerr // then it is sent
	}
	return true, there.Close()
}

func (r repository) Put(ctx context.Context, d ocispec.Descriptor, content io.Reader) error {
	_, err := r.client.BlobPut(ctx, r.name, described(d), content)
	return err
}

func (r repository) MountOrCopy(ctx context.Context, d ocispec.Descriptor) error {
	return r.client.BlobCopy(ctx, r.from, r.name, described(d))
}

func (r repository) Manifest(ctx context.Context, doc oci.Document, named bool) error {
	m, err := manifest.New(manifest.WithRaw(doc.Bytes), manifest.WithDesc(descriptor.Descriptor{MediaType: doc.MediaType, Digest: doc.Digest, Size: int64(len(doc.Bytes))}))
	if err != nil {
		return err
	}
	to := r.name
	if !named {
		to = to.SetDigest(doc.Digest.String())
	}
	return r.client.ManifestPut(ctx, to, m)
}

func described(d ocispec.Descriptor) descriptor.Descriptor {
	return descriptor.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
}

func at(t *testing.T, reg *testkit.Registry, to string) repository {
	t.Helper()
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	c := upstream.NewControl(upstream.Options{Egress: egress, Plain: []string{reg.Host}}).For(upstream.Access{}, reg.Host)
	from, err := ref.New(reg.Host + "/library/base:1")
	if err != nil {
		t.Fatal(err)
	}
	name, err := ref.New(reg.Host + "/" + to)
	if err != nil {
		t.Fatal(err)
	}
	return repository{c, from, name}
}

// bases returns the images of an index by architecture.
func bases(t *testing.T, reg *testkit.Registry, oci bool) map[string]layering.Base {
	t.Helper()
	index := testkit.Index(t, oci, "amd64", "arm64")
	full := reg.Push(t, "library/base:1", index)
	root, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]layering.Base{}
	for _, d := range m.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		out[d.Platform.Architecture] = baseOf(t, full, digest.Digest(root.String()), img)
	}
	return out
}

func baseOf(t *testing.T, full string, root digest.Digest, img v1.Image) layering.Base {
	t.Helper()
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	media, err := img.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	return layering.Base{Name: full, Digest: root, Manifest: oci.NewDocument(string(media), raw), Config: config}
}

// environmentOf returns the image of a lock.
func environmentOf(t *testing.T, m *layering.Builder, base layering.Base, arch string, lock []spec.Record) layering.Image {
	t.Helper()
	ctx := context.Background()
	made, err := m.Packages(ctx, lock)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := m.Layers(ctx, lock, made)
	if err != nil {
		t.Fatal(err)
	}
	img, err := layering.Environment{
		Base: base, Platform: ocispec.Platform{OS: "linux", Architecture: arch}, Title: "libcurl=8.4", Specs: []string{"libcurl=8.4", "it's"},
		Records: lock, Packages: made, Layers: layers,
	}.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestImage builds an image for two platforms on two workers and pushes it to a real
// registry. There, another client verifies every byte.
func TestImage(t *testing.T) {
	t.Parallel()
	for _, isOCI := range []bool{true, false} {
		ctx, reg := context.Background(), testkit.NewRegistry(t, testkit.Open)
		base := bases(t, reg, isOCI)
		var asked atomic.Int32
		lock := environment(t, &asked)
		var roots []digest.Digest
		for range 2 {
			m := newBuilder(t, t.TempDir())
			amd, arm := environmentOf(t, m, base["amd64"], "amd64", lock), environmentOf(t, m, base["arm64"], "arm64", lock)
			p, err := m.Push(ctx, at(t, reg, "team/env:1"), arm, amd)
			if err != nil {
				t.Fatal(err)
			}
			roots = append(roots, p.Root.Digest)
			if want := []int{len(lock), 0}[len(roots)-1]; p.Layers != len(lock) || p.Sent != want {
				t.Errorf("%d of %d layers were sent, want %d", p.Sent, p.Layers, want)
			}
		}
		if roots[0] != roots[1] {
			t.Errorf("the same lock became %s and %s", roots[0], roots[1])
		}
		tag, err := name.ParseReference(reg.Host+"/team/env:1", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		index, err := remote.Index(tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("the index is not valid: %v", err)
		}
		img, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"}))
		if err != nil {
			t.Fatal(err)
		}
		checkConfig(t, img, base["arm64"], lock)
	}
}

func checkConfig(t *testing.T, img v1.Image, base layering.Base, lock []spec.Record) {
	t.Helper()
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"PATH=/opt/conda/bin:/bin", "HOME=/root", "CONDA_PREFIX=/opt/conda", "MAMBA_ROOT_PREFIX=/opt/conda"}
	if diff := cmp.Diff(want, cf.Config.Env); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if cf.Architecture != "arm64" || !slices.Equal(cf.Config.Entrypoint, []string{"/bin/entry"}) || len(cf.RootFS.DiffIDs) != 2+len(lock)+1 {
		t.Errorf("the configuration is %+v", cf)
	}
	var by []string
	for _, h := range cf.History {
		by = append(by, h.CreatedBy)
	}
	if !slices.Contains(by, "conda: libcurl 8.4.0 h4e8248e_0") || by[len(by)-1] != "conda: history" {
		t.Errorf("the history is %q", by)
	}
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	records, err := json.Marshal(lock)
	if err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{
		"org.opencontainers.image.title": "libcurl=8.4", "org.opencontainers.image.created": "2023-11-14T22:13:20Z",
		"org.opencontainers.image.base.name": base.Name, "org.opencontainers.image.base.digest": base.Digest.String(),
		"dev.slipway.conda.lock": digest.FromBytes(records).String(),
	}
	if diff := cmp.Diff(notes, m.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(notes, cf.Config.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	for _, l := range m.Layers {
		if l.MediaType != ocispec.MediaTypeImageLayerGzip {
			t.Errorf("a layer of an OCI image is %s", l.MediaType)
		}
	}
}

// TestSecondEnvironment checks that layers which two environments share are sent once.
func TestSecondEnvironment(t *testing.T) {
	t.Parallel()
	ctx, reg := context.Background(), testkit.NewRegistry(t, testkit.Open)
	base := bases(t, reg, true)
	var asked atomic.Int32
	lock := environment(t, &asked)
	m := newBuilder(t, t.TempDir())
	first, err := m.Push(ctx, at(t, reg, "team/env:1"), environmentOf(t, m, base["amd64"], "amd64", lock[:len(lock)-1]))
	if err != nil {
		t.Fatal(err)
	}
	second, err := m.Push(ctx, at(t, reg, "team/env:2"), environmentOf(t, m, base["amd64"], "amd64", lock))
	if err != nil || first.Sent != len(lock)-1 || second.Sent != 1 || second.SentBytes >= first.SentBytes {
		t.Errorf("first %d, %d bytes; second %d, %d bytes: %v", first.Sent, first.SentBytes, second.Sent, second.SentBytes, err)
	}
}

// TestPushFailsEarly checks that no layer is sent to a registry that rejects pushes.
func TestPushFailsEarly(t *testing.T) {
	t.Parallel()
	ctx, reg := context.Background(), testkit.NewRegistry(t, testkit.Open)
	base := bases(t, reg, true)
	var asked, uploads atomic.Int32
	lock := environment(t, &asked)
	m := newBuilder(t, t.TempDir())
	img := environmentOf(t, m, base["amd64"], "amd64", lock)
	reg.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		uploads.Add(1)
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	if _, err := m.Push(ctx, at(t, reg, "team/env:1"), img); err == nil || uploads.Load() > 2 { // the client starts one upload in two ways
		t.Errorf("%d uploads were begun: %v", uploads.Load(), err)
	}
}

// TestImageRefuses checks unusable base images.
func TestImageRefuses(t *testing.T) {
	t.Parallel()
	reg := testkit.NewRegistry(t, testkit.Open)
	base := bases(t, reg, true)["amd64"]
	broken := base
	broken.Config = []byte(`{"os":"linux","architecture":"amd64","config":[]}`)
	for why, e := range map[string]layering.Environment{
		"it is for linux/amd64 instead of linux/arm64": {Base: base, Platform: ocispec.Platform{OS: "linux", Architecture: "arm64"}},
		"cannot be used": {Base: broken, Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}},
	} {
		if _, err := e.Image(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("it ended with %v, not %q", err, why)
		}
	}
}
