package build_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

func TestOneBuildForMany(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		replicas := []replica{p.replica(t, 1), p.replica(t, 1)} // the quota allows one build only
		newWorker(t, p, 2)
		var wg sync.WaitGroup
		ids := make([]string, 12)
		for i := range ids {
			wg.Go(func() {
				resp, err := replicas[i%2].SubmitBuild(t.Context(), p.request("one", "", nil))
				if err != nil {
					t.Error(err)
				}
				ids[i] = resp.GetBuildId()
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] || !strings.HasSuffix(id, "_1") {
				t.Fatalf("builds %v; one was enough", ids)
			}
		}
		if _, err := replicas[0].SubmitBuild(t.Context(), p.request("two", "", nil)); !errors.Is(err, fault.Exhausted) {
			t.Errorf("over the quota: %v", err)
		}
	})
}

func TestBuildFromQueueToCache(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		a, b := p.replica(t, 100), p.replica(t, 100)
		w := newWorker(t, p, 1)
		req := p.request("image", "", nil)
		first := a.submit(t, req)
		if first.GetCached() || first.GetSucceeded() {
			t.Errorf("a new build is answered as %v", first)
		}
		if joined := b.submit(t, req); joined.GetBuildId() != first.GetBuildId() || !joined.GetCached() || joined.GetSucceeded() {
			t.Errorf("joining is answered as %v", joined)
		}
		waiting := make(chan *buildv1.AwaitBuildResponse, 1)
		go func() {
			resp, err := b.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: first.GetBuildId()})
			if err != nil {
				t.Error(err)
			}
			waiting <- resp
		}()
		j := w.take(t, a, 1)
		if got := a.state(t, j.id); got.GetState() != buildv1.BuildState_BUILD_STATE_RUNNING {
			t.Errorf("a build that a worker has is %v", got.GetState())
		}
		j.succeed(t, p.push(t, req, j.id))
		if got := <-waiting; got.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
			t.Errorf("who waited hears %v", got)
		}
		if again := b.submit(t, req); !again.GetCached() || !again.GetSucceeded() || again.GetBuildId() != j.id {
			t.Errorf("an image that is there is answered as %v", again)
		}
		if _, err := db.ExecContext(t.Context(), `DELETE FROM build_builds`); err != nil {
			t.Fatal(err)
		}
		if again := b.submit(t, req); !again.GetSucceeded() || again.GetBuildId() != j.id {
			t.Errorf("without its record the image is answered as %v", again)
		}
		if got := b.state(t, j.id); got.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
			t.Errorf("and its build is %v", got)
		}
	})
}

func TestFailureIsNeverReused(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	req := p.request("broken", "", nil)
	r.submit(t, req)
	j := w.take(t, r, 1)
	j.report(t, &buildv1.Result{Reason: "build", Message: "step 2 failed"})
	j.ended(t, r)
	got := r.state(t, j.id)
	if got.GetState() != buildv1.BuildState_BUILD_STATE_FAILED || got.GetReason() != "build" || got.GetMessage() != "step 2 failed" {
		t.Errorf("it is %v", got)
	}
	if again := r.submit(t, req); again.GetCached() || !strings.HasSuffix(again.GetBuildId(), "_2") {
		t.Errorf("asked again it is %v", again)
	}
}

func TestOnlyTheNewestDeliveryCanFail(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	r.submit(t, p.request("slow", "", nil))
	old := w.take(t, r, 1)
	newest := old
	newest.delivery = 2
	newest.tell(t, r)
	if _, err := r.TakeJob(t.Context(), &buildv1.TakeJobRequest{BuildId: old.id, Delivery: 1, Worker: "old"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("an old delivery is taken: %v", err)
	}
	if _, err := r.GetBuildCredentials(t.Context(), &buildv1.GetBuildCredentialsRequest{Ticket: old.job.GetTicket(), Registry: p.up.Host}); !errors.Is(err, fault.NotFound) {
		t.Errorf("its ticket is good: %v", err)
	}
	old.report(t, &buildv1.Result{Reason: "build"})
	newest.report(t, &buildv1.Result{Reason: "memory"})
	newest.ended(t, r)
	if got := r.state(t, old.id); got.GetReason() != "memory" {
		t.Errorf("it failed for %q", got.GetReason())
	}
}

func TestScopesDoNotMeet(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 1)
	mine := r.submit(t, p.request("private", "aaaa", &platformv1.Identity{Endpoint: "e", UserId: 1}))
	theirs := r.submit(t, p.request("private", "bbbb", &platformv1.Identity{Endpoint: "e", UserId: 2}))
	if mine.GetBuildId() == theirs.GetBuildId() || theirs.GetCached() {
		t.Errorf("two owners share %v", theirs)
	}
}

func TestLostJobIsQueuedAgain(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	id := r.submit(t, p.request("lost", "", nil)).GetBuildId()
	w.take(t, r, 1)
	if err := w.js.DeleteStream(t.Context(), buildbus.JobStream); err != nil {
		t.Fatal(err)
	}
	p.sleep(2 * time.Minute)
	w.appear(t, 1)
	r.service.Sweep(t.Context())
	w.setUp(t)
	if j := w.take(t, r, 1); j.id != id {
		t.Errorf("the job that comes again is %s", j.id)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	told, err := p.bus.SubscribeSync(buildbus.Cancel("*"))
	if err != nil {
		t.Fatal(err)
	}
	r.submit(t, p.request("unwanted", "", nil))
	j := w.take(t, r, 1)
	if _, err := r.CancelBuild(t.Context(), &buildv1.CancelBuildRequest{BuildId: j.id}); err != nil {
		t.Fatal(err)
	}
	if m, err := told.NextMsg(time.Minute); err != nil || m.Subject != buildbus.Cancel(j.id) || string(m.Data) != hashOf(j.job.GetTicket()) {
		t.Errorf("the worker hears %v, %v", m, err)
	}
	if got := r.state(t, j.id); got.GetReason() != "cancelled" {
		t.Errorf("it is %v", got)
	}
	j.report(t, &buildv1.Result{Succeeded: true, Digest: "sha256:x"})
	j.ended(t, r)
	if got := r.state(t, j.id); got.GetReason() != "cancelled" {
		t.Errorf("after a late result it is %v", got)
	}
}

// TestCancelWhileItIsTaken cancels a build at the moment when a worker takes it. The build
// is cancelled, and its worker receives a valid proof.
func TestCancelWhileItIsTaken(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	told, err := p.bus.SubscribeSync(buildbus.Cancel("*"))
	if err != nil {
		t.Fatal(err)
	}
	newWorker(t, p, 1)
	for i := range 30 {
		id := r.submit(t, p.request(fmt.Sprint("unwanted", i), "", nil)).GetBuildId()
		var both sync.WaitGroup
		var job *buildv1.TakeJobResponse
		both.Go(func() {
			for range i % 5 { // delay, so that each round takes the job at another point of the cancellation
				_, _ = r.GetBuildStatus(t.Context(), &buildv1.GetBuildStatusRequest{BuildId: id})
			}
			job, _ = r.TakeJob(t.Context(), &buildv1.TakeJobRequest{BuildId: id, Delivery: 1, Worker: "test"}) // may be too late
		})
		both.Go(func() {
			if _, err := r.CancelBuild(t.Context(), &buildv1.CancelBuildRequest{BuildId: id}); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		m, err := told.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if job != nil && string(m.Data) != hashOf(job.GetTicket()) {
			t.Errorf("build %d: its worker does not believe %q", i, m.Data)
		}
		if got := r.state(t, id); got.GetReason() != "cancelled" {
			t.Errorf("build %d is %v", i, got)
		}
	}
}

// TestJobsInHandStay ends one of two builds of a worker, and checks that the other job is
// redelivered if the worker is lost.
func TestJobsInHandStay(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 3)
	r.submit(t, p.request("one", "", nil))
	r.submit(t, p.request("other", "", nil))
	one := w.take(t, r, 1)
	w.take(t, r, 1)
	one.succeed(t, "sha256:x")
	one.ended(t, r)
	poll(t, "the other job alone in hand", func(ctx context.Context) error {
		info, err := w.jobs.Info(ctx)
		if err == nil && info.NumAckPending != 1 {
			err = fmt.Errorf("%d jobs are in hand", info.NumAckPending)
		}
		return err
	})
}

func TestQueuePositionsAndUnknownBuilds(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 1)
	for i := range 3 {
		p.sleep(time.Second)
		id := r.submit(t, p.request(fmt.Sprint(i), "", nil)).GetBuildId()
		if got := r.state(t, id); got.GetPosition() != int32(i+1) {
			t.Errorf("build %d is at place %d", i, got.GetPosition())
		}
		if got, err := r.GetBuildStatus(t.Context(), &buildv1.GetBuildStatusRequest{BuildId: id}); err != nil || got.GetPosition() != int32(i+1) {
			t.Errorf("the status of build %d is %v, %v", i, got, err)
		}
	}
	for _, id := range []string{"", "x", "0123456789abcdef_1", "0123456789abcdef_1' OR 1=1"} {
		if _, err := r.GetBuildStatus(t.Context(), &buildv1.GetBuildStatusRequest{BuildId: id}); !errors.Is(err, fault.NotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestDryRunStartsNothing(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 0)
	req := p.request("dry", "", nil)
	req.DryRun = true
	if got := r.submit(t, req); got.GetBuildId() != req.GetContentId()+"_0" || got.GetCached() {
		t.Errorf("a dry run is answered as %v", got)
	}
}

func TestDifferentContentUnderOneName(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	newWorker(t, p, 1)
	req := p.request("a", "", nil)
	r.submit(t, req)
	other := proto.CloneOf(req)
	other.ContentDigest = req.GetContentDigest()[:16] + strings.Repeat("0", 48)
	if _, err := r.SubmitBuild(t.Context(), other); !errors.Is(err, fault.Conflict) {
		t.Errorf("a build of something else is joined: %v", err)
	}
}
