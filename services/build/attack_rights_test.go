package build_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// foreign is the attacker's own request: for a repository of theirs, where they may
// put whatever they like.
func (p *place) foreign(text string) *buildv1.SubmitBuildRequest {
	req := p.request(text, "eeee", nil)
	req.Target.Repository = "eve/mine"
	return req
}

// TestAnnotationsOfOthersEndNoBuild has an attacker put the id of somebody's build
// on an image of their own, and ask for that image.
func TestAnnotationsOfOthersEndNoBuild(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p.bus, 1)
	victim := p.request("victim", "", nil)
	id := r.submit(t, victim).GetBuildId()
	attack := p.foreign("attack")
	p.push(t, attack, id)
	if got := r.submit(t, attack); got.GetBuildId() == id || got.GetSucceeded() {
		t.Errorf("the attacker is answered %v", got)
	}
	if got := r.state(t, id); got.GetState() != buildv1.BuildState_BUILD_STATE_QUEUED {
		t.Errorf("the victim's build is %v", got)
	}
	// Nor in our own repository: an id belongs to one content.
	own := p.request("other", "", nil)
	p.push(t, own, id)
	if got := r.submit(t, own); !strings.HasPrefix(got.GetBuildId(), own.GetContentId()+"_") {
		t.Errorf("an image with another's id is answered %v", got)
	}
	j := w.take(t, r, 1)
	if got := r.state(t, id); j.id != id || got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
		t.Errorf("the worker has %s, and the victim's build is %v", j.id, got)
	}
}

// TestAPushedImageDoesNotEndItsBuild lets somebody ask between a push and its
// report: the build goes on until its worker says how it ended.
func TestAPushedImageDoesNotEndItsBuild(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p.bus, 1)
	req := p.request("image", "", nil)
	r.submit(t, req)
	j := w.take(t, r, 1)
	digest := p.push(t, req, j.id)
	if got := r.submit(t, req); got.GetBuildId() != j.id || !got.GetCached() || got.GetSucceeded() {
		t.Errorf("meanwhile it is answered as %v", got)
	}
	if got := r.state(t, j.id); got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
		t.Errorf("and is %v", got)
	}
	// The worker's report is lost, and the build given up: its image is there.
	j.report(t, &buildv1.Result{Reason: "timeout"})
	j.ended(t, r)
	again := r.submit(t, req)
	if !again.GetSucceeded() || again.GetBuildId() == j.id {
		t.Errorf("afterwards it is answered as %v", again)
	}
	if got := r.state(t, again.GetBuildId()); got.GetDigest() != digest {
		t.Errorf("it is %v", got)
	}
	if got := r.state(t, j.id); got.GetReason() != "timeout" {
		t.Errorf("the build that failed is %v", got)
	}
}

// TestAFinishedImageKeepsItsName asks for other content whose id begins alike.
func TestAFinishedImageKeepsItsName(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p.bus, 1)
	victim := p.request("victim", "", nil)
	p.push(t, victim, victim.GetContentId()+"_1")
	attack := p.request("victim", "", nil)
	attack.ContentDigest = victim.GetContentDigest()[:16] + strings.Repeat("0", 48)
	if got, err := r.SubmitBuild(t.Context(), attack); !errors.Is(err, fault.Conflict) {
		t.Errorf("answered %v, %v", got, err)
	}
}

// TestIDsCannotBeReserved takes the ids that a victim's builds would get.
func TestIDsCannotBeReserved(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testkit.SQLite(t))
	r := p.replica(t, 1000)
	newWorker(t, p.bus, 1)
	victim := p.request("victim", "", nil)
	for n := range 40 { // by asking for images that carry them
		attack := p.foreign(fmt.Sprint("attack", n))
		p.push(t, attack, fmt.Sprintf("%s_%d", victim.GetContentId(), n+1))
		r.submit(t, attack)
	}
	// As an older release left them: rows of another content with these ids.
	for n := range 40 {
		_, err := p.db.ExecContext(t.Context(), `UPDATE build_builds SET id = $1 WHERE id = $2`,
			fmt.Sprintf("%s_%d", victim.GetContentId(), n+1), p.foreign(fmt.Sprint("attack", n)).GetContentId()+"_1")
		if err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			resp, err := r.SubmitBuild(t.Context(), proto.CloneOf(victim))
			if err != nil {
				t.Error(err)
			}
			ids[i] = resp.GetBuildId()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || !strings.HasPrefix(id, victim.GetContentId()+"_") {
			t.Fatalf("builds %v; one was enough", ids)
		}
	}
}
