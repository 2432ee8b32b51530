package build_test

import (
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/testkit"
)

// TestResultsOfOthers checks that a worker, or any client of the bus, can only end or
// return the build whose ticket it has.
func TestResultsOfOthers(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 8)
	r.submit(t, p.request("victim", "", nil))
	victim := w.take(t, r, 1)
	r.submit(t, p.request("mine", "", nil))
	mine := w.take(t, r, 1)
	if mine.id == victim.id {
		t.Fatal("the same job was taken twice")
	}
	forged := func(id, ticket string, change *buildv1.Result) {
		change.BuildId, change.Delivery, change.Ticket = victim.id, 9, ticket
		mine.publish(t, buildbus.Results, id, change)
	}
	forged("a", "", &buildv1.Result{Succeeded: true, Digest: "sha256:evil"})
	forged("b", mine.job.GetTicket(), &buildv1.Result{Succeeded: true, Digest: "sha256:evil"})
	forged("c", mine.job.GetTicket(), &buildv1.Result{Reason: "build", Message: "no"})
	forged("d", mine.job.GetTicket(), &buildv1.Result{HandedBack: true})
	forged("e", "guessed", &buildv1.Result{HandedBack: true})
	mine.report(t, &buildv1.Result{Reason: "build"}) // after the others
	mine.ended(t, r)
	if got := r.state(t, victim.id); got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
		t.Errorf("another's build is %v", got)
	}
	if _, err := r.GetBuildCredentials(t.Context(), &buildv1.GetBuildCredentialsRequest{Ticket: victim.job.GetTicket(), Registry: p.up.Host}); err != nil {
		t.Errorf("its worker has lost its ticket: %v", err)
	}
	victim.report(t, &buildv1.Result{Reason: "memory"})
	victim.ended(t, r)
	if got := r.state(t, victim.id); got.GetReason() != "memory" {
		t.Errorf("it ended for %q", got.GetReason())
	}
}
