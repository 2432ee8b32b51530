package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// TestRedirectsHere checks that redirects to this service's own address are rejected.
func TestRedirectsHere(t *testing.T) {
	t.Parallel()
	s := &Registry{}
	s.deps.PublicURL = "https://slipway.example:8443"
	for host, want := range map[string]bool{
		"slipway.example:8443": true, "SLIPWAY.example:8443": true, "slipway.example": false, "storage.example": false, "": false,
	} {
		if s.isOwn(host) != want {
			t.Errorf("%q is our own: %v", host, !want)
		}
	}
}

// TestImagesWithVeryManyManifests serves images with more manifests and blobs than the limits
// allow.
func TestImagesWithVeryManyManifests(t *testing.T) {
	t.Parallel()
	img := &image{blobs: map[digest.Digest]int64{}, parsed: map[digest.Digest]bool{}, others: map[digest.Digest]bool{}}
	desc := func(s string) string { return fmt.Sprintf(`{"digest":"%s","size":1}`, digest.FromString(s)) }
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		var layers, others []string
		var digests []digest.Digest
		for i := range limits.ImageLayers {
			layers = append(layers, desc(fmt.Sprint(n, "layer", i)))
			others = append(others, fmt.Sprint(n, "manifest", i))
			digests = append(digests, digest.FromString(others[i]))
		}
		img.addManifests(digests)
		err = img.addBlobs(oci.NewDocument(ocispec.MediaTypeImageManifest, []byte(`{"config":`+desc(fmt.Sprint(n))+`,"layers":[`+strings.Join(layers, ",")+`]}`)))
	}
	if !errors.Is(err, fault.Invalid) || len(img.blobs) > limits.ImageBlobs || len(img.others) > limits.ImageBlobs {
		t.Errorf("it leads to %d blobs and %d manifests, %v", len(img.blobs), len(img.others), err)
	}
	if img.weight() < limits.ImageBlobs*100 {
		t.Errorf("it weighs %d bytes", img.weight())
	}
}
