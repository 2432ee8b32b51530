package build_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// expected returns the expected start and end in a build's status, in seconds from now; -1 for
// unknown.
func (r replica) expected(t *testing.T, id string) [2]float64 {
	t.Helper()
	got, err := r.GetBuildStatus(t.Context(), &buildv1.GetBuildStatusRequest{BuildId: id})
	if err != nil {
		t.Fatal(err)
	}
	out := [2]float64{-1, -1}
	for i, s := range []*float64{got.ExpectedStart, got.ExpectedEnd} {
		if s != nil {
			out[i] = *s
		}
	}
	return out
}

// TestExpectedTimes checks the estimates from the durations of builds of the same kind and
// from the slots of workers.
func TestExpectedTimes(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 1)
		pass := func(d time.Duration) {
			t.Helper()
			p.sleep(d)
			w.appear(t, 1) // otherwise it counts as dead
		}
		check := func(what, id string, want [2]float64) {
			t.Helper()
			if diff := cmp.Diff(want, r.expected(t, id)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		for i, took := range []time.Duration{10, 90, 60} {
			req := p.request(fmt.Sprint("made ", i), "", nil)
			id := r.submit(t, req).GetBuildId()
			if i == 0 {
				check("while nothing is known", id, [2]float64{-1, -1})
			}
			j := w.take(t, r, 1)
			pass(took * time.Second)
			j.succeed(t, p.push(t, req, j.id))
			j.ended(t, r)
			check("once it has ended", id, [2]float64{-1, -1})
		}
		var ids []string
		for i := range 3 {
			p.sleep(time.Second)
			ids = append(ids, r.submit(t, p.request(fmt.Sprint("next ", i), "", nil)).GetBuildId())
		}
		check("the first", ids[0], [2]float64{0, 60})
		check("the third", ids[2], [2]float64{120, 180})
		running := w.take(t, r, 1)
		pass(20 * time.Second)
		check("what runs", running.id, [2]float64{-1, 70}) // of the builds that took 60 and 90, the longer one
		check("behind what runs", ids[1], [2]float64{70, 130})
		pass(71 * time.Second)
		check("what runs for longer than any did", running.id, [2]float64{-1, -1})
		check("behind what runs for longer than any did", ids[2], [2]float64{-1, -1})
		running.report(t, &buildv1.Result{Reason: "build"})
		running.ended(t, r)
		w.appear(t, 2)
		check("with two slots, the second", ids[2], [2]float64{0, 60})
		req := p.request("another kind", "", nil)
		req.Recipe.Platform = "linux/arm64"
		check("another kind", r.submit(t, req).GetBuildId(), [2]float64{-1, -1})
		p.announce(t, &buildv1.Presence{Worker: "test"})
		p.listens(t)
		check("without a worker", ids[2], [2]float64{-1, -1})
	})
}

// TestExpectedSeconds checks that estimates are whole seconds, and that there is none while
// the packages of a build are not solved.
func TestExpectedSeconds(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	w.appear(t, 1, canConda)
	unsolved := func(text string) string {
		return r.submit(t, p.unsolved(text, nil)).GetBuildId()
	}
	for i := range 3 {
		req := p.unsolved(fmt.Sprint("made ", i), nil)
		id := r.submit(t, req).GetBuildId()
		r.solve(t, &buildv1.SolveBuildRequest{BuildId: id, Lock: lockOf("linux/amd64", "linux-64")})
		j := w.take(t, r, 1)
		p.sleep(510 * time.Millisecond)
		j.succeed(t, p.push(t, req, j.id))
		j.ended(t, r)
	}
	next := unsolved("next")
	if got, want := r.expected(t, next), [2]float64{-1, -1}; got != want {
		t.Errorf("an unsolved build begins and ends in %v", got)
	}
	r.solve(t, &buildv1.SolveBuildRequest{BuildId: next, Lock: lockOf("linux/amd64", "linux-64")})
	if got, want := r.expected(t, next), [2]float64{0, 1}; got != want {
		t.Errorf("a build like others that took 0.51 s begins and ends in %v seconds, want %v", got, want)
	}
}
