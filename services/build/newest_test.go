package build_test

import (
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestDryRunReportsLastFailure checks that a dry run returns why the newest build of the
// same content failed, and nothing of older builds or of other contents.
func TestDryRunReportsLastFailure(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 1)
		req := p.request("image", "", nil)
		dry := p.request("image", "", nil)
		dry.DryRun = true
		if got := r.submit(t, dry); got.GetLastFailure() != "" {
			t.Errorf("before any build it is %v", got)
		}
		for _, reason := range []string{"build", "push"} {
			r.submit(t, req)
			if got := r.submit(t, dry); !got.GetCached() || got.GetLastFailure() != "" {
				t.Errorf("while it is built it is %v", got)
			}
			j := w.take(t, r, 1)
			j.report(t, &buildv1.Result{Reason: reason, Message: "it failed"})
			j.ended(t, r)
			if got := r.submit(t, dry); got.GetCached() || got.GetLastFailure() != reason {
				t.Errorf("after it failed it is %v", got)
			}
		}
		other := p.request("another", "", nil)
		other.DryRun = true
		if got := r.submit(t, other); got.GetLastFailure() != "" {
			t.Errorf("another image is %v", got)
		}
		r.submit(t, req)
		j := w.take(t, r, 1)
		j.succeed(t, p.push(t, req, j.id))
		j.ended(t, r)
		if got := r.submit(t, dry); !got.GetSucceeded() || got.GetLastFailure() != "" {
			t.Errorf("once it exists it is %v", got)
		}
	})
}
