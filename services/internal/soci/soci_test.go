package soci_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/ztoc"
)

// manifest returns the manifest of an image with a config of a type, and layers.
func manifest(t *testing.T, mediaType, config string, layers ...ocispec.Descriptor) oci.Document {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": mediaType, "config": ocispec.Descriptor{MediaType: config, Digest: digest.FromString("config"), Size: 6}, "layers": layers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return oci.NewDocument(mediaType, raw)
}

func sized(mediaType string, size int64) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(mediaType), Size: size}
}

func TestLayersWithZtoc(t *testing.T) {
	t.Parallel()
	foreign := sized(ocispec.MediaTypeImageLayerGzip, limits.ZtocLayer)
	foreign.URLs = []string{"https://h.example/layer"}
	for _, c := range []struct {
		of   ocispec.Descriptor
		want bool
	}{
		{sized(ocispec.MediaTypeImageLayerGzip, limits.ZtocLayer), true},
		{sized(ocispec.MediaTypeImageLayerGzip, limits.ZtocLayer-1), false},
		{sized(ocispec.MediaTypeImageLayer, limits.ZtocLayer), true},
		{sized(oci.TypeDockerLayer, limits.ZtocLayer), true},
		{sized(ocispec.MediaTypeImageLayerZstd, 1<<40), false},
		{sized("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", 1<<40), false},
		{sized("text/plain", 1<<40), false},
		{foreign, false},
	} {
		if soci.HasZtoc(c.of) != c.want {
			t.Errorf("%+v has a zTOC: %v", c.of, !c.want)
		}
	}
	large, small := sized(ocispec.MediaTypeImageLayerGzip, limits.ZtocLayer), sized("small", 1)
	got, err := soci.Layers(manifest(t, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, small, large, large))
	if err != nil || len(got) != 1 || got[0].Digest != large.Digest {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadRejects(t *testing.T) {
	t.Parallel()
	for _, mediaType := range []string{ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageLayer} {
		l := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString("no layer"), Size: int64(len("no layer"))}
		if _, err := soci.Read(l, strings.NewReader("no 1ayer")); err == nil || errors.Is(err, ztoc.ErrInvalid) {
			t.Errorf("%s: changed content: %v", mediaType, err)
		}
		if _, err := soci.Read(l, strings.NewReader("no layer")); !errors.Is(err, ztoc.ErrInvalid) {
			t.Errorf("%s: %v", mediaType, err)
		}
	}
}

// TestEnable checks the documents of an image with a SOCI index, for an image and for an index of it.
func TestEnable(t *testing.T) {
	t.Parallel()
	amd64 := ocispec.Platform{OS: "linux", Architecture: "amd64"}
	layer := sized(oci.TypeDockerLayer, limits.ZtocLayer)
	image := manifest(t, oci.TypeDockerManifest, oci.TypeDockerConfig, layer)
	ztocs := []soci.Ztoc{{Layer: layer, Digest: digest.FromString("ztoc"), Size: 4}}
	got, err := soci.Enable(image, image, amd64, ztocs)
	if err != nil {
		t.Fatal(err)
	}
	x, err := oci.ParseIndex(got.Root)
	if err != nil || len(x.Manifests) != 2 || x.Manifests[0].Digest != got.Manifest.Digest || x.Manifests[1].Digest != got.Index.Digest {
		t.Fatalf("%s, %v", got.Root.Bytes, err)
	}
	if !soci.IsRoot(got.Root, got.Manifest, amd64) {
		t.Error("the index is not that of its manifest")
	}
	if found := oci.Matching(x, amd64); len(found) != 1 || found[0] != 0 {
		t.Errorf("the images for the platform are %v", found)
	}
	other := got.Root
	other.Bytes = bytes.Replace(other.Bytes, []byte(`"amd64"`), []byte(`"arm64"`), 1)
	for name, of := range map[string][2]oci.Document{
		"another index":             {oci.NewDocument(other.MediaType, other.Bytes), got.Manifest},
		"the manifest without soci": {got.Root, image},
		"no index":                  {got.Manifest, got.Manifest},
	} {
		if soci.IsRoot(of[0], of[1], amd64) {
			t.Errorf("%s is accepted", name)
		}
	}
	root, err := oci.NewIndex([]oci.Part{{Image: oci.NewDocument(ocispec.MediaTypeImageManifest, manifest(t, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, layer).Bytes), Platform: amd64}}, map[string]string{"a": "b"})
	if err != nil {
		t.Fatal(err)
	}
	inner := manifest(t, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, layer)
	in, err := soci.Enable(root, inner, amd64, ztocs)
	if err != nil || oci.Annotations(in.Root)["a"] != "b" || !strings.Contains(string(in.Root.Bytes), in.Manifest.Digest.String()) || strings.Contains(string(in.Root.Bytes), inner.Digest.String()) {
		t.Errorf("%s, %v", in.Root.Bytes, err)
	}
	if _, err := soci.Enable(root, image, amd64, ztocs); !errors.Is(err, fault.Invalid) {
		t.Errorf("an index without the image: %v", err)
	}
	if _, err := soci.Enable(image, image, amd64, nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("an image without zTOCs: %v", err)
	}
}
