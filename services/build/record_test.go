package build_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/testkit"
)

// TestRecordsSayHowTheyWereRequested checks that the record of a build has the options and
// the context size of its request, also if the build uses the image of another build.
func TestRecordsSayHowTheyWereRequested(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 1).appear(t, 1, &buildv1.Capability{Engine: "sif", Architecture: "any"})
	options := &containerv1.CondaOptions{BaseImage: "docker.io/library/debian:12", Commands: []string{"USER 1"}}
	req := p.request("again", "", nil)
	req.Recipe.CondaOptions = options
	req.Recipe.Context = &containerv1.Layer{Location: "https://example.org/secret", GzipSize: new(int64(1200))}
	sif := p.request("again as sif", "", nil)
	sif.Recipe = &buildv1.Recipe{Engine: "sif", Format: "sif", Platform: "linux/amd64"}
	sif.Parts = []*buildv1.SubmitBuildRequest{req}
	plain := r.submit(t, p.request("plain", "", nil)).GetBuildId()
	for id, want := range map[string]*buildv1.Build{
		plain:                         {},
		r.submit(t, sif).GetBuildId(): {CondaOpts: options, ContextSize: new(1200.0)},
		r.submit(t, req).GetBuildId(): {CondaOpts: options, ContextSize: new(1200.0)},
	} {
		d, err := r.DescribeBuild(t.Context(), &buildv1.DescribeBuildRequest{BuildId: id})
		if err != nil {
			t.Fatal(err)
		}
		if got := (&buildv1.Build{CondaOpts: d.GetBuild().GetCondaOpts(), ContextSize: d.GetBuild().ContextSize}); !proto.Equal(want, got) {
			t.Errorf("%s is recorded as %v, want %v", id, got, want)
		}
	}
}
