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

// TestPatchedEnvironment checks that a patch of an environment without an image requests such an environment.
func TestPatchedEnvironment(t *testing.T) {
	t.Parallel()
	e, err := NewEarlier(&containerv1.ContainerRequest{Format: FormatEnvironment}, &containerv1.Plan{}, &buildv1.SubmitBuildRequest{
		Recipe: &buildv1.Recipe{Engine: "conda", Format: FormatEnvironment, Platform: "linux/amd64", Variables: map[string]string{"A": "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	again := e.Request("lock")
	if again.GetFormat() != FormatEnvironment || again.GetPackages().GetCondaOpts() != nil || again.GetMount() {
		t.Errorf("the request is %v", again)
	}
	packages := Packages{}
	p := Parsed{Raw: again}
	if err := e.Apply(p, &packages); err != nil || packages.Steps != "" || packages.conda.Environment.Variables["A"] != "b" {
		t.Errorf("%+v, %v", packages, err)
	}
}
