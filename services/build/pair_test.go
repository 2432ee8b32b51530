package build_test

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/testkit"
)

// pair returns a request for an index of two builds.
func (p *deployment) pair(text string) *buildv1.SubmitBuildRequest {
	index := p.request(text, "", nil)
	index.Recipe = &buildv1.Recipe{Engine: "index", Platform: "linux/amd64,linux/arm64"}
	for _, arch := range []string{"amd64", "arm64"} {
		part := p.request(text+arch, "", nil)
		part.Recipe.Platform = "linux/" + arch
		index.Parts = append(index.Parts, part)
	}
	return index
}

func TestPairBecomesOneIndex(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	a, b := p.replica(t, 2), p.replica(t, 2) // both builds are charged, the index is not
	w := newWorker(t, p, 1)
	req := p.pair("pair")
	first := a.submit(t, req)
	if joined := b.submit(t, req); joined.GetBuildId() != first.GetBuildId() || !joined.GetCached() {
		t.Errorf("joining is answered as %v", joined)
	}
	if got := a.state(t, first.GetBuildId()); got.GetState() != buildv1.BuildState_BUILD_STATE_QUEUED {
		t.Errorf("before its parts the index is %v", got)
	}
	one := w.take(t, a, 1)
	if got := a.state(t, first.GetBuildId()); got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
		t.Errorf("while a part runs the index is %v", got)
	}
	two := w.take(t, a, 1)
	for _, j := range []takenJob{one, two} {
		for _, part := range req.GetParts() {
			if proto.Equal(part.GetTarget(), j.job.GetTarget()) {
				j.succeed(t, p.push(t, part, j.id))
			}
		}
	}
	got, err := a.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: first.GetBuildId()})
	if err != nil || got.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
		t.Fatalf("in the end it is %v, %v", got, err)
	}
	target := req.GetTarget()
	ref, err := name.ParseReference(target.GetRegistry()+"/"+target.GetRepository()+":"+target.GetTag(), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil || len(m.Manifests) != 2 || m.Manifests[1].Platform.Architecture != "arm64" || m.Annotations["dev.slipway.build-id"] != first.GetBuildId() {
		t.Errorf("the index is %+v, %v", m, err)
	}
	if again := b.submit(t, req); !again.GetSucceeded() || again.GetBuildId() != first.GetBuildId() {
		t.Errorf("asked again it is %v", again)
	}
}

func TestPairFailsWithItsPart(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 2)
	w := newWorker(t, p, 2)
	id := r.submit(t, p.pair("half")).GetBuildId()
	one, two := w.take(t, r, 1), w.take(t, r, 1)
	one.report(t, &buildv1.Result{Reason: "solve", Message: "no such package"})
	two.report(t, &buildv1.Result{Succeeded: true, Digest: "sha256:x"})
	got, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: id})
	if err != nil || got.GetReason() != "solve" {
		t.Errorf("it is %v, %v", got, err)
	}
}
