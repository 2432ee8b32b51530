package registry

import (
	"errors"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// TestScanOfArtifacts checks that only manifests that no engine runs need no scan.
func TestScanOfArtifacts(t *testing.T) {
	t.Parallel()
	const (
		empty = `"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2`
		other = `"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","size":9`
	)
	for _, c := range []struct {
		name, configType, config, layerType string
		served                              bool
	}{
		{"a SOCI index", "application/vnd.amazon.soci.index.v2+json", empty, "application/octet-stream", true},
		{"a signature", "application/vnd.oci.empty.v1+json", other, "application/vnd.dev.sigstore.bundle.v0.3+json", true},
		{"an image", ocispec.MediaTypeImageConfig, other, ocispec.MediaTypeImageLayerGzip, false},
		{"an image with an empty config", ocispec.MediaTypeImageConfig, empty, ocispec.MediaTypeImageLayerGzip, false},
		{"an artifact with a config", "application/vnd.amazon.soci.index.v2+json", other, ocispec.MediaTypeImageLayerGzip, false},
	} {
		raw := `{"config":{"mediaType":"` + c.configType + `",` + c.config + `},"layers":[{"mediaType":"` + c.layerType + `",` + other + `}]}`
		tok := &resolvedToken{scanned: true}
		err := tok.checkScanned(&image{}, oci.NewDocument(ocispec.MediaTypeImageManifest, []byte(raw)))
		if c.served != (err == nil) || err != nil && !errors.Is(err, fault.Denied) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
