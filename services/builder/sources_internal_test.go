package builder

import (
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/oci"
)

// TestOwnImagesAreForbidden: of what the service has made, a build reads the one image
// that it goes on from, and nothing else.
func TestOwnImagesAreForbidden(t *testing.T) {
	t.Parallel()
	own, other := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	s := newSources(nil, nil, Job{
		Forbidden: []string{"store.example:5000/builds"},
		Recipe:    &buildv1.Recipe{Source: &containerv1.Source{Registry: "store.example:5000", Repository: "builds/ada", Reference: own}},
	})
	ref, err := oci.ParseReference("store.example:5000/builds/ada@" + own)
	if err != nil || !s.isSource(ref) {
		t.Errorf("it cannot go on from its own image: %v", err)
	}
	for _, name := range []string{
		"builds/ada@" + other, "builds/ada:latest", "builds/bob@" + own, "builds@" + own,
	} {
		if why := s.refusal(t.Context(), "docker-image://store.example:5000/"+name); !strings.Contains(why, "it belongs to the build service") {
			t.Errorf("%s: %q", name, why)
		}
	}
}
