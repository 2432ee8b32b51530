package build_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// unsolved returns a build of Conda packages that has to be solved first.
func (p *deployment) unsolved(text string, who *platformv1.Identity) *buildv1.SubmitBuildRequest {
	r := p.request(text, "", who)
	r.Recipe = &buildv1.Recipe{Engine: "conda", Format: "oci", Platform: "linux/amd64", QueryDigest: digest.FromString(text).Encoded()}
	r.Unsolved = &condav1.LockQuery{
		Packages: &condav1.CondaPackages{Type: "CONDA", Entries: []string{text}}, Platforms: []string{"linux/amd64"},
	}
	return r
}

func (r replica) claim(t *testing.T) *buildv1.UnsolvedBuild {
	t.Helper()
	resp, err := r.ClaimUnsolvedBuilds(t.Context(), &buildv1.ClaimUnsolvedBuildsRequest{Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetBuilds()) == 0 {
		return nil
	}
	return resp.GetBuilds()[0]
}

func (r replica) solve(t *testing.T, req *buildv1.SolveBuildRequest) {
	t.Helper()
	if _, err := r.SolveBuild(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// canConda is the capability to build images of Conda packages.
var canConda = &buildv1.Capability{Engine: "conda", Architecture: "any"}

// TestUnsolvedBuild checks that a build waits for its lock, is returned to one caller at a
// time, and is built from the stored lock.
func TestUnsolvedBuild(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		a, b := p.replica(t, 100), p.replica(t, 100)
		w := newWorker(t, p, 2)
		w.appear(t, 2, canConda)
		req := p.unsolved("samtools", nil)
		id := a.submit(t, req).GetBuildId()
		if joined := b.submit(t, p.unsolved("samtools", nil)); joined.GetBuildId() != id || !joined.GetCached() {
			t.Errorf("the same request is %v", joined)
		}
		got := b.claim(t)
		if got.GetBuildId() != id || !proto.Equal(got.GetQuery(), req.GetUnsolved()) {
			t.Fatalf("claimed %v", got)
		}
		if again := a.claim(t); again != nil {
			t.Errorf("claimed twice: %v", again)
		}
		p.sleep(2 * time.Minute) // the caller that had it was killed
		if again := a.claim(t); again.GetBuildId() != id {
			t.Errorf("after a minute claimed %v", again)
		}
		lock := lockOf("linux/amd64", "linux-64")
		w.appear(t, 2, canConda) // its last presence is two minutes old
		a.solve(t, &buildv1.SolveBuildRequest{BuildId: id, Lock: lock, Preface: "Conda: resolved"})
		b.solve(t, &buildv1.SolveBuildRequest{BuildId: id, Message: "too late"}) // the other caller is still alive
		j := w.take(t, a, 1)
		if j.id != id || j.job.GetLock() != lock.GetRecords()[0] || j.job.GetRecipe().GetLockDigest() != digest.FromString(lock.GetRecords()[0]).Encoded() {
			t.Errorf("the worker has %v", j.job)
		}
		if text := a.lock(t, id, "explicit").GetText(); !strings.Contains(text, "libzlib-1.3.1") {
			t.Errorf("its lock is %q", text)
		}
		if again := b.claim(t); again != nil {
			t.Errorf("claimed %v", again)
		}
	})
}

// TestUnsolvedThatFails checks that a build whose packages conflict ends with the solver's
// message, and that one whose channels cannot be read is retried for a while.
func TestUnsolvedThatFails(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 2).appear(t, 2, canConda)
	id := r.submit(t, p.unsolved("impossible", nil)).GetBuildId()
	r.claim(t)
	r.solve(t, &buildv1.SolveBuildRequest{BuildId: id, Message: "a does not go with b"})
	if got := r.state(t, id); got.GetState() != buildv1.BuildState_BUILD_STATE_FAILED || got.GetReason() != "solve" || got.GetMessage() != "a does not go with b" {
		t.Errorf("it is %v", got)
	}
	late := r.submit(t, p.unsolved("late", nil)).GetBuildId()
	tries := 0
	for r.state(t, late).GetState() == buildv1.BuildState_BUILD_STATE_QUEUED && tries < 1000 {
		if b := r.claim(t); b.GetBuildId() == late {
			tries++
			r.solve(t, &buildv1.SolveBuildRequest{BuildId: late, Unavailable: "h cannot be reached", RetrySeconds: 30})
		}
		p.sleep(10 * time.Second)
	}
	if got := r.state(t, late); got.GetReason() != "solve" || !strings.Contains(got.GetMessage(), "h cannot be reached") || tries < 10 || tries > int(limits.BuildUnsolved/(30*time.Second))+2 {
		t.Errorf("after %d tries it is %v", tries, got)
	}
}

// TestUnsolvedBuildsTakeTurns checks that users come before anonymous callers, and that an
// owner with many builds does not delay another.
func TestUnsolvedBuildsTakeTurns(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		newWorker(t, p, 2).appear(t, 2, canConda)
		ada, bob := &platformv1.Identity{Endpoint: "http://p", UserId: 1}, &platformv1.Identity{Endpoint: "http://p", UserId: 2}
		for _, of := range []struct {
			text string
			who  *platformv1.Identity
		}{{"anonymous", nil}, {"ada 1", ada}, {"ada 2", ada}, {"ada 3", ada}, {"bob 1", bob}} {
			r.submit(t, p.unsolved(of.text, of.who))
			p.sleep(time.Millisecond)
		}
		var order []string
		for b := r.claim(t); b != nil; b = r.claim(t) {
			order = append(order, b.GetQuery().GetPackages().GetEntries()[0])
		}
		if got := strings.Join(order, ", "); got != "ada 1, bob 1, ada 2, ada 3, anonymous" {
			t.Errorf("they were claimed as %s", got)
		}
	})
}

// TestUnsolvedIsChecked checks the requests that the service rejects.
func TestUnsolvedIsChecked(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 2).appear(t, 2, canConda)
	for name, change := range map[string]func(*buildv1.SubmitBuildRequest){
		"another engine": func(r *buildv1.SubmitBuildRequest) { r.Recipe.Engine = "buildkit" },
		"no query":       func(r *buildv1.SubmitBuildRequest) { r.Recipe.QueryDigest = "" },
		"a lock as well": func(r *buildv1.SubmitBuildRequest) { r.Lock = lockOf("linux/amd64", "linux-64") },
		"too large": func(r *buildv1.SubmitBuildRequest) {
			r.Unsolved.Packages.Entries = []string{strings.Repeat("a", limits.BuildLock)}
		},
	} {
		req := p.unsolved("checked", nil)
		change(req)
		if _, err := r.SubmitBuild(t.Context(), req); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	id := r.submit(t, p.unsolved("private", nil)).GetBuildId()
	private := lockOf("linux/amd64", "linux-64")
	private.Private = true
	if _, err := r.SolveBuild(t.Context(), &buildv1.SolveBuildRequest{BuildId: id, Lock: private}); !errors.Is(err, fault.Invalid) {
		t.Errorf("a private lock for a shared build: %v", err)
	}
}
