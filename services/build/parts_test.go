package build_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// sif returns a request for a Singularity image of a build's image.
func (p *deployment) sif(text string) *buildv1.SubmitBuildRequest {
	out, part := p.request("sif of "+text, "", nil), p.request(text, "", nil)
	out.Recipe = &buildv1.Recipe{Engine: "sif", Format: "sif", Platform: "linux/amd64"}
	out.Parts = []*buildv1.SubmitBuildRequest{part}
	return out
}

// newSifWorker returns a worker that can also build Singularity images.
func newSifWorker(t *testing.T, p *deployment) *worker {
	t.Helper()
	w := newWorker(t, p, 1)
	w.appear(t, 1, &buildv1.Capability{Engine: "sif", Architecture: "any"})
	return w
}

func TestSifIsMadeFromItsBuild(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	a, b := p.replica(t, 1), p.replica(t, 1) // the build is charged, its Singularity image is not
	w := newSifWorker(t, p)
	req := p.sif("tool")
	whole := a.submit(t, req)
	if joined := b.submit(t, req); joined.GetBuildId() != whole.GetBuildId() || !joined.GetCached() {
		t.Errorf("joining is answered as %v", joined)
	}
	part := b.submit(t, req.GetParts()[0])
	if part.GetBuildId() == whole.GetBuildId() || !part.GetCached() {
		t.Errorf("asking for the part is answered as %v", part)
	}
	first := w.take(t, a, 1)
	if first.id != part.GetBuildId() || first.job.GetRecipe().GetEngine() != "buildkit" {
		t.Fatalf("the first job is %v", first.job)
	}
	if got := b.state(t, whole.GetBuildId()); got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
		t.Errorf("while its part runs it is %v", got)
	}
	digest := p.push(t, req.GetParts()[0], first.id)
	first.succeed(t, digest)
	second := w.take(t, a, 1)
	src, from := second.job.GetRecipe().GetSource(), req.GetParts()[0].GetTarget()
	if second.id != whole.GetBuildId() || second.job.GetRecipe().GetEngine() != "sif" {
		t.Fatalf("the second job is %v", second.job)
	}
	if src.GetReference() != digest || src.GetRepository() != from.GetRepository() || src.GetRegistry() != from.GetRegistry() {
		t.Errorf("it is made from %v, and that was %s", src, digest)
	}
	second.succeed(t, p.push(t, req, second.id))
	second.ended(t, b)
	if again := b.submit(t, req); !again.GetSucceeded() || again.GetBuildId() != whole.GetBuildId() {
		t.Errorf("asked again it is %v", again)
	}
}

// TestSifOfExistingImageIsCharged checks that a Singularity image of an existing image is
// charged, since any number of them can be requested for one image.
func TestSifOfExistingImageIsCharged(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 2)
	w := newSifWorker(t, p)
	first, second, third := p.sif("tool"), p.sif("tool"), p.sif("tool")
	for i, req := range []*buildv1.SubmitBuildRequest{second, third} {
		other := p.request(strings.Repeat("another ", i+1), "", nil)
		req.ContentId, req.ContentDigest, req.Target = other.ContentId, other.ContentDigest, other.Target
	}
	r.submit(t, first)
	job := w.take(t, r, 1)
	job.succeed(t, p.push(t, first.GetParts()[0], job.id))
	job.ended(t, r)
	r.submit(t, second)
	if got, err := r.SubmitBuild(t.Context(), third); !errors.Is(err, fault.Exhausted) {
		t.Errorf("the third is answered as %v, %v", got, err)
	}
	if got := r.submit(t, second); !got.GetCached() {
		t.Errorf("what is under way is answered as %v", got)
	}
}

func TestSifFailsWithItsBuild(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 1)
	w := newSifWorker(t, p)
	id := r.submit(t, p.sif("broken")).GetBuildId()
	w.take(t, r, 1).report(t, &buildv1.Result{Reason: "build", Message: "exit code 1"})
	got, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: id})
	if err != nil || got.GetReason() != "build" {
		t.Errorf("it is %v, %v", got, err)
	}
}

func TestPartsAreOfOnePlace(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	for name, change := range map[string]func(*buildv1.SubmitBuildRequest){
		"a Dockerfile of another": func(r *buildv1.SubmitBuildRequest) { r.Recipe.Engine = "buildkit" },
		"two images in one":       func(r *buildv1.SubmitBuildRequest) { r.Parts = append(r.Parts, proto.CloneOf(r.Parts[0])) },
		"parts of parts": func(r *buildv1.SubmitBuildRequest) {
			r.Parts[0].Parts = []*buildv1.SubmitBuildRequest{proto.CloneOf(r.Parts[0])}
		},
		"another repository": func(r *buildv1.SubmitBuildRequest) {
			r.Recipe.Engine, r.Parts[0].Target.Repository = "index", "elsewhere"
		},
		"another registry": func(r *buildv1.SubmitBuildRequest) { r.Parts[0].Target.Registry = "elsewhere.example" },
	} {
		req := p.sif("odd")
		change(req)
		if _, err := r.SubmitBuild(t.Context(), req); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCancelDependentBuilds cancels first the build that uses an image, then the build
// of that image.
func TestCancelDependentBuilds(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newSifWorker(t, p)
	whole := r.submit(t, p.sif("unwanted")).GetBuildId()
	part := w.take(t, r, 1)
	cancel := func(id string, parts ...string) {
		t.Helper()
		resp, err := r.CancelBuild(t.Context(), &buildv1.CancelBuildRequest{BuildId: id})
		if err != nil || !slices.Equal(resp.GetPartIds(), parts) {
			t.Errorf("cancelling %s is answered as %v, %v", id, resp, err)
		}
	}
	cancel(part.id)
	if got := r.state(t, part.id); got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
		t.Errorf("what another is made from became %v", got)
	}
	cancel(whole, part.id)
	cancel(whole, part.id) // a client that did not get the response repeats the request
	if got := r.state(t, whole); got.GetReason() != "cancelled" {
		t.Errorf("it is %v", got)
	}
	cancel(part.id)
	if got := r.state(t, part.id); got.GetReason() != "cancelled" {
		t.Errorf("what nobody needs is %v", got)
	}
	cancel(whole)
}
