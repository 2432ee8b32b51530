package build_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// inOrganization returns a user in a workspace of an organisation.
func inOrganization(id int64) *platformv1.Identity {
	return &platformv1.Identity{Endpoint: "e", UserId: id + 100, WorkspaceId: id + 10, OrganizationId: id}
}

// limitsOf returns a limit of the organisation 3.
func limitsOf(t *testing.T, k ratelimit.Kind, value string) ratelimit.Own {
	t.Helper()
	own := ratelimit.Own{Endpoint: "e"}
	if err := own.Add(ratelimit.Subject{Of: ratelimit.Organization, ID: 3}, k, value); err != nil {
		t.Fatal(err)
	}
	return own
}

func (r replica) cancel(t *testing.T, id string) {
	t.Helper()
	if _, err := r.CancelBuild(t.Context(), &buildv1.CancelBuildRequest{BuildId: id}); err != nil {
		t.Fatal(err)
	}
}

// TestBuildMinutes charges the minutes of builds that fail, are cancelled or never end to the
// organisation that started them, and not to another one that waits for the same build. When they are
// used up, its new builds are refused.
func TestBuildMinutes(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	p.own = limitsOf(t, ratelimit.BuildMinutes, "30/24h")
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	limiter := ratelimit.New(p.redis, prometheus.NewRegistry(), testkit.Log(t))
	checkLeft := func(what string, want int) {
		t.Helper()
		poll(t, what, func(context.Context) error {
			got, known := limiter.Remaining(t.Context(), "e", ratelimit.Subject{Of: ratelimit.Organization, ID: 3}, ratelimit.BuildMinutes, ratelimit.Limit{{Count: 30, Window: 24 * time.Hour}})
			if !known || got != want {
				return fmt.Errorf("%d minutes are left, want %d", got, want)
			}
			return nil
		})
	}
	pass := func(d time.Duration) {
		t.Helper()
		p.sleep(d)
		w.appear(t, 1) // otherwise it counts as dead
	}
	n := 0
	next := func() *buildv1.SubmitBuildRequest {
		n++
		return p.request(fmt.Sprint("build ", n), "", inOrganization(3))
	}

	req := next()
	r.submit(t, req)
	checkLeft("a build waits", 29)
	shared := proto.CloneOf(req)
	shared.Identity = inOrganization(4)
	if got := r.submit(t, shared); !got.GetCached() {
		t.Errorf("another organisation that waits for the build got %v", got)
	}
	j := w.take(t, r, 1)
	pass(4*time.Minute + 30*time.Second)
	j.report(t, &buildv1.Result{Reason: "build"})
	j.ended(t, r)
	checkLeft("a build failed after 4.5 minutes", 25)

	r.submit(t, next())
	j = w.take(t, r, 1)
	pass(3 * time.Minute)
	r.cancel(t, j.id)
	checkLeft("a build was cancelled after 3 minutes", 22)
	j.report(t, &buildv1.Result{Reason: "build"}) // the worker reports it again
	j.ended(t, r)

	r.submit(t, next())
	j = w.take(t, r, 1)
	pass(2 * time.Hour) // its worker never reports
	r.service.Sweep(t.Context())
	j.ended(t, r)
	checkLeft("a build took its whole time limit", 2)

	for range 2 {
		r.cancel(t, r.submit(t, next()).GetBuildId())
	}
	checkLeft("builds were cancelled while they waited", 0)
	_, err := r.SubmitBuild(t.Context(), next())
	if e, _ := fault.As(err); e == nil || e.Kind != fault.Exhausted || e.Code != "limit.buildMinutes" || e.RetryAfter <= 0 {
		t.Errorf("a build without minutes: %v", err)
	}
	req.Identity = inOrganization(4)
	r.submit(t, req)
}

// TestExpectedStartAtLimits checks that a build is expected to start when the builds of its organisation that
// run leave it a place, and those of others at once.
func TestExpectedStartAtLimits(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		p.own = limitsOf(t, ratelimit.RunningBuilds, "1")
		r := p.replica(t, 100)
		w := newWorker(t, p, 4)
		made := p.request("made", "", inOrganization(4))
		r.submit(t, made)
		j := w.take(t, r, 1)
		p.sleep(time.Minute)
		w.appear(t, 4)
		j.succeed(t, p.push(t, made, j.id))
		j.ended(t, r)
		submit := func(name string, org int64) string {
			p.sleep(time.Microsecond) // the order of builds
			return r.submit(t, p.request(name, "", inOrganization(org))).GetBuildId()
		}
		submit("runs", 3)
		w.take(t, r, 1)
		second, third, other := submit("second", 3), submit("third", 3), submit("other", 4)
		for id, want := range map[string]float64{second: 60, third: 120, other: 0} {
			if got := r.expected(t, id)[0]; math.Abs(got-want) > 1 {
				t.Errorf("a build that starts in %g s is expected in %g s", want, got)
			}
		}
	})
}
