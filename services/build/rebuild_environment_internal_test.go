package build

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/mount/environment"
)

// environmentOf returns the documents of an environment whose only package has a blob with this content.
func environmentOf(t *testing.T, blob string, env ...string) (manifest, config []byte) {
	t.Helper()
	id := strings.Repeat("0", 64)
	config, err := json.Marshal(environment.Config{
		Prefix: "/opt/conda", Index: digest.FromString(blob + " index"), Platform: "linux/amd64", Env: env,
		Packages: []environment.Package{{Name: "a", Version: "1", Build: "0", Blob: id}},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err = json.Marshal(ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: environment.Type,
		Config: ocispec.Descriptor{MediaType: environment.TypeConfig, Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers: []ocispec.Descriptor{
			{MediaType: environment.TypeIndex, Digest: digest.FromString(blob + " packed"), Size: 1},
			{MediaType: "application/vnd.slipway.package.v1+zstd", Digest: digest.FromString(blob), Size: 1, Annotations: map[string]string{environment.BlobAnnotation: id}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return manifest, config
}

// TestRebuiltEnvironments checks how two builds of an environment without an image are compared.
func TestRebuiltEnvironments(t *testing.T) {
	t.Parallel()
	read := func(blob string, env ...string) parsedImage {
		t.Helper()
		out, err := parseImage(environmentOf(t, blob, env...))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := read("x", "A=b")
	if d := differing(first, read("x", "A=b"), nil); len(d) > 0 {
		t.Errorf("equal environments differ: %+v", d)
	}
	other := read("y", "A=c")
	if d := differing(first, other, nil); len(d) != 2 || d[0].Name != "index of files" || d[1].Name != "conda: a 1 0" {
		t.Errorf("the differences are %+v", d)
	}
	if d := differingSettings(first.settings, other.settings); len(d) != 1 || d[0].Name != "env" {
		t.Errorf("the settings differ by %+v", d)
	}
	manifest, _ := environmentOf(t, "x")
	_, config := environmentOf(t, "y")
	if _, err := parseImage(manifest, config); err == nil {
		t.Error("the config of another environment is accepted")
	}
}
