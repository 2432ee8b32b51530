package request

import (
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// TestPatchedCompression checks that a patch requests the compression of the earlier image in a form that
// requests for Conda packages can have.
func TestPatchedCompression(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{modeEstargz, modeChunked, modeZstd} {
		asked := &containerv1.ContainerRequest{Compression: &containerv1.Compression{Mode: mode}}
		stored := compressionOf(asked)
		e := Earlier{Record: asked, Parts: []*buildv1.SubmitBuildRequest{{Recipe: &buildv1.Recipe{Compression: stored}}}}
		again := e.Request("lock")
		if err := checkCompressed(again); err != nil || compressionOf(again).GetMode() != mode || compressionOf(again).GetForce() != stored.GetForce() {
			t.Errorf("%s: %v, %v", mode, again.GetCompression(), err)
		}
	}
}
