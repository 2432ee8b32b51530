package oci_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// typed returns the descriptor of a layer with any media type; more is appended to its members.
func typed(mediaType, content, more string) string {
	return fmt.Sprintf(`{"mediaType":"%s","digest":"%s","size":7%s}`, mediaType, digest.FromString(content), more)
}

// diffsOf returns a config for a platform with the digests of uncompressed layers.
func diffsOf(platform string, layers ...string) string {
	ids := make([]string, len(layers))
	for i, l := range layers {
		ids[i] = `"` + digest.FromString(l).String() + `"`
	}
	return `{` + platform + `"rootfs":{"type":"layers","diff_ids":[` + strings.Join(ids, ",") + `]}}`
}

const amd64 = `"os":"linux","architecture":"amd64",`

// layersOf returns the layers of an image with one manifest.
func layersOf(t *testing.T, k kind, config, layers string) ([]oci.Layer, error) {
	t.Helper()
	r := repo{}
	r.add(k.config, config)
	return oci.LayersOf(t.Context(), r, r.add(k.manifest, k.text(config, layers, "")), linuxAMD64)
}

func TestLayersOf(t *testing.T) {
	t.Parallel()
	const docker = "application/vnd.docker.image.rootfs.diff.tar"
	config := diffsOf(amd64, "a", "b", "c")
	want := []oci.Layer{
		{GzipDigest: digest.FromString("A"), TarDigest: digest.FromString("a"), Size: 7, MediaType: ocispec.MediaTypeImageLayerGzip},
		{GzipDigest: digest.FromString("B"), TarDigest: digest.FromString("b"), Size: 7, MediaType: ocispec.MediaTypeImageLayerZstd},
		{GzipDigest: digest.FromString("C"), TarDigest: digest.FromString("c"), Size: 7, MediaType: ocispec.MediaTypeImageLayer},
	}
	for name, c := range map[string]struct {
		kind  kind
		types [3]string
	}{
		"OCI":    {ociKind, [3]string{ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageLayerZstd, ocispec.MediaTypeImageLayer}},
		"Docker": {dockerKind, [3]string{oci.TypeDockerLayer, docker + ".zstd", docker}},
	} {
		got, err := layersOf(t, c.kind, config, typed(c.types[0], "A", "")+","+typed(c.types[1], "B", "")+","+typed(c.types[2], "C", ""))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		for i := range got {
			got[i].Image = "docker.io/library/x@sha256:1"
		}
		r := repo{}
		root := r.image(c.kind, diffsOf(amd64, "old"))
		made := augment(t, r, root, oci.Augmentation{Layers: append([]oci.Layer{added("one")}, got...)})
		m, err := oci.ParseManifest(made.Root)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range m.Layers[2:] {
			if l.MediaType != c.types[i] || l.Digest != want[i].GzipDigest || l.Size != 7 {
				t.Errorf("%s: layer %d is put on an image as %v", name, i, l)
			}
		}
		if text := string(made.Images[0].Config.Bytes); strings.Count(text, `{"created_by":"slipway: included docker.io/library/x@sha256:1"}`) != 3 ||
			strings.Count(text, `{"created_by":"slipway: added layer"}`) != 1 {
			t.Errorf("%s: the config is %s", name, text)
		}
	}
}

func TestLayersOfRefuses(t *testing.T) {
	t.Parallel()
	gzip := typed(ocispec.MediaTypeImageLayerGzip, "A", "")
	artifact := ociKind
	artifact.config = "application/vnd.example"
	for name, c := range map[string]struct {
		kind           kind
		config, layers string
		want           error
		says           string
	}{
		"another platform":     {ociKind, diffsOf(`"os":"linux","architecture":"arm64",`, "a"), gzip, fault.NotFound, "not available for linux/amd64; it has linux/arm64"},
		"an artifact":          {artifact, diffsOf(amd64, "a"), gzip, fault.Invalid, "not a container image"},
		"more layers":          {ociKind, diffsOf(amd64, "a"), gzip + "," + gzip, fault.Invalid, "has 2 layers, but its config"},
		"fewer layers":         {ociKind, diffsOf(amd64, "a", "b"), gzip, fault.Invalid, "has 1 layers, but its config"},
		"a foreign layer":      {ociKind, diffsOf(amd64, "a"), typed(ocispec.MediaTypeImageLayerGzip, "A", `,"urls":["https://example.org"]`), fault.Invalid, "cannot be added to another image"},
		"an encrypted layer":   {ociKind, diffsOf(amd64, "a"), typed(ocispec.MediaTypeImageLayerGzip+"+encrypted", "A", ""), fault.Invalid, "cannot be added to another image"},
		"a layer without type": {ociKind, diffsOf(amd64, "a"), typed("", "A", ""), fault.Invalid, "cannot be added to another image"},
		"no digest":            {ociKind, `{` + amd64 + `"rootfs":{"diff_ids":["x"]}}`, gzip, fault.Invalid, "malformed"},
		"no config":            {ociKind, `[]`, gzip, fault.Invalid, "malformed"},
	} {
		if got, err := layersOf(t, c.kind, c.config, c.layers); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, c.says)
		}
	}
	r := repo{}
	arm := r.image(ociKind, diffsOf(`"os":"linux","architecture":"arm64",`, "a"))
	index := r.index(ociKind, describe(arm, platform("linux", "arm64", "")), describe(arm, platform("linux", "s390x", "")))
	if _, err := oci.LayersOf(t.Context(), r, index, linuxAMD64); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "it has linux/arm64, linux/s390x") {
		t.Errorf("an index: %v", err)
	}
}

// TestAugmentBoundsLayers checks that the limit includes the layers of the image.
func TestAugmentBoundsLayers(t *testing.T) {
	t.Parallel()
	r := repo{}
	root := r.image(ociKind, diffsOf(amd64, "old"))
	most := oci.Augmentation{Layers: make([]oci.Layer, limits.ImageLayers-1)}
	for i := range most.Layers {
		most.Layers[i] = added(fmt.Sprint(i))
	}
	if _, err := oci.Augment(t.Context(), r, root, most, linuxAMD64); err != nil {
		t.Error(err)
	}
	most.Layers = append(most.Layers, added("more"))
	if _, err := oci.Augment(t.Context(), r, root, most, linuxAMD64); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "the limit is 512") {
		t.Errorf("one more: %v", err)
	}
}

// FuzzLayersOf checks that LayersOf returns layers that can be added to an image, or an error.
func FuzzLayersOf(f *testing.F) {
	config := diffsOf(amd64, "a")
	f.Add([]byte(ociKind.text(config, ociKind.layerOf("A", 5), "")), []byte(config))
	f.Add([]byte(dockerKind.text(config, dockerKind.layerOf("A", 5)+","+typed("", "B", `,"urls":[""]`), "")), []byte(`{"rootfs":{"diff_ids":["sha256:x",null]}}`))
	addSeeds(f)
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		src := permissive{manifest, config}
		for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex} {
			layers, err := oci.LayersOf(t.Context(), src, oci.NewDocument(mediaType, manifest), linuxAMD64)
			if err != nil && !errors.Is(err, fault.Invalid) && !errors.Is(err, fault.NotFound) {
				t.Errorf("%v is neither fault.Invalid nor fault.NotFound", err)
			}
			for _, l := range layers {
				if l.MediaType == "" || l.Size < 0 || l.GzipDigest.Validate() != nil || l.TarDigest.Validate() != nil {
					t.Errorf("got the layer %v", l)
				}
			}
		}
	})
}
