package build_test

import (
	"errors"
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

const missingPackage = "h does not have a-1-0.conda any more; lock the environment again"

// outdated reports that the channel no longer has a package of the lock.
func (j takenJob) outdated(t *testing.T, key string) {
	t.Helper()
	j.publish(t, buildbus.Results, j.id+key, &buildv1.Result{
		BuildId: j.id, Delivery: j.delivery, Ticket: j.job.GetTicket(), Reason: "build", Message: missingPackage, LockOutdated: true,
	})
}

// solved returns a build of a lock that was solved before it was requested.
func (p *deployment) solved(text string) *buildv1.SubmitBuildRequest {
	req := p.packages(text, `[{"name":"a"}]`, nil)
	req.SolvedFrom = p.unsolved(text, nil).GetUnsolved()
	return req
}

// claimed waits for a build to be solved.
func (r replica) claimed(t *testing.T) *buildv1.UnsolvedBuild {
	t.Helper()
	var out *buildv1.UnsolvedBuild
	testkit.Until(t, "a build has to be solved", func() error {
		if out = r.claim(t); out == nil {
			return errors.New("none is claimed")
		}
		return nil
	})
	return out
}

// TestOutdatedLock checks that a build is solved again, once, from newer package lists, if
// the channel no longer has a package of its lock, and that its log explains that.
func TestOutdatedLock(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 4)
	w.appear(t, 4, canConda)
	req := p.solved("samtools")
	id := r.submit(t, req).GetBuildId()
	w.take(t, r, 1).outdated(t, ".1")
	got := r.claimed(t)
	if got.GetBuildId() != id || got.GetListsAfter().AsTime().IsZero() || got.GetListsAfter() == nil || got.GetQuery().GetPackages().GetEntries()[0] != "samtools" {
		t.Fatalf("it is solved as %v", got)
	}
	given := p.packages("samtools", `[{"name":"a"}]`, nil)
	if _, err := r.SubmitBuild(t.Context(), given); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a request with the outdated lock itself joins the build: %v", err)
	}
	lock := lockOf("linux/amd64", "linux-64")
	r.solve(t, &buildv1.SolveBuildRequest{BuildId: id, Lock: lock, Preface: "Conda: resolved to 1 package"})
	again := w.take(t, r, 1)
	if again.id != id || again.job.GetLock() != lock.GetRecords()[0] {
		t.Errorf("the worker has %v", again.job)
	}
	if text := r.lock(t, id, "explicit").GetText(); !strings.Contains(text, "libzlib") {
		t.Errorf("its lock is %q", text)
	}
	again.outdated(t, ".2")
	again.ended(t, r)
	if got := r.state(t, id); got.GetReason() != "build" || got.GetMessage() != missingPackage {
		t.Errorf("the second time it ends as %v", got)
	}
	log := strings.Join(r.follow(t, id, 0).read(t, 100), "\n")
	for _, want := range []string{missingPackage + ". The packages are resolved again", "Conda: resolved to 1 package", "The build failed (build): " + missingPackage} {
		if strings.Count(log, want) != 1 {
			t.Errorf("its log has %d times %q:\n%s", strings.Count(log, want), want, log)
		}
	}
}

// TestOutdatedListOfChannel checks that a build ends if the channel still lists a package that
// it no longer serves.
func TestOutdatedListOfChannel(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 4)
	w.appear(t, 4, canConda)
	req := p.solved("samtools")
	id := r.submit(t, req).GetBuildId()
	w.take(t, r, 1).outdated(t, ".1")
	r.claimed(t)
	r.solve(t, &buildv1.SolveBuildRequest{BuildId: id, Lock: p.solved("samtools").GetLock(), Preface: "Conda: resolved"})
	if got := r.state(t, id); got.GetReason() != "build" || !strings.Contains(got.GetMessage(), "h does not have a-1-0.conda any more; the channel still lists it") {
		t.Errorf("it ends as %v", got)
	}
}

// TestCallersLockIsNotSolvedAgain checks that a build fails if a package of the caller's lock
// is missing.
func TestCallersLockIsNotSolvedAgain(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 4)
	w.appear(t, 4, canConda)
	locked := p.packages("locked", `[{"name":"a"}]`, nil)
	pending := p.unsolved("pending", nil) // a lock that the solver had no time for
	for _, req := range []*buildv1.SubmitBuildRequest{locked, pending} {
		id := r.submit(t, req).GetBuildId()
		if req.GetUnsolved() != nil {
			r.claimed(t)
			r.solve(t, &buildv1.SolveBuildRequest{BuildId: id, Lock: lockOf("linux/amd64", "linux-64")})
		}
		job := w.take(t, r, 1)
		job.outdated(t, ".1")
		job.ended(t, r)
		if got := r.state(t, id); got.GetMessage() != missingPackage || got.GetReason() != "build" {
			t.Errorf("it ends as %v", got)
		}
		if got := r.claim(t); got != nil {
			t.Errorf("it is solved as %v", got)
		}
	}
}
