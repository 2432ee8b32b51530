package build_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// deployment is what replicas of the service share.
type deployment struct {
	db    *sqldb.DB
	bus   *nats.Conn
	redis redis.UniversalClient
	up    *testkit.Registry

	mu  sync.Mutex
	now time.Time
	// logins, where set, are those of the service and of its callers.
	logins *caller.Keychain
	// replicas are their metrics.
	replicas []*prometheus.Registry
}

func newDeployment(t *testing.T, db *sqldb.DB) *deployment {
	t.Helper()
	if err := db.Migrate(t.Context(), "build", build.Migrations()); err != nil {
		t.Fatal(err)
	}
	return &deployment{
		db: db, bus: testkit.NATS(t), redis: testkit.Redis(t), up: testkit.NewRegistry(t, testkit.Open),
		now: time.Now().Truncate(time.Microsecond),
	}
}

func (p *deployment) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *deployment) sleep(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

// replica is one service behind its gRPC clients.
type replica struct {
	buildv1.BuildServiceClient
	buildv1.WorkServiceClient
	service *build.Service
}

// replica starts a service; limit is how many builds an anonymous caller may
// start.
func (p *deployment) replica(t *testing.T, limit int) replica {
	t.Helper()
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	s, err := build.New(build.Deps{
		DB: p.db, Bus: p.bus, Log: testkit.Log(t), Now: p.clock, Metrics: reg,
		Upstream: upstream.New(upstream.Options{Egress: egress, Plain: []string{p.up.Host}, Metrics: reg}),
		Control:  upstream.NewControl(upstream.Options{Egress: egress, Plain: []string{p.up.Host}}),
		Keychain: p.keychain(),
		Limiter:  ratelimit.New(p.redis, reg, testkit.Log(t)),
		Settings: build.Settings{
			BuildsAnonymous: ratelimit.Limit{{Count: limit, Window: time.Hour}}, BuildsUser: ratelimit.Limit{{Count: limit, Window: time.Hour}},
			TimeAnonymous: 10 * time.Minute, TimeUser: 20 * time.Minute,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, s.Run)
	conn, _ := testkit.Serve(t, s.Register, "builder", "container", "gateway")
	p.replicas = append(p.replicas, reg)
	p.listens(t)
	return replica{buildv1.NewBuildServiceClient(conn), buildv1.NewWorkServiceClient(conn), s}
}

// listens waits until every replica has heard what workers said of themselves
// before.
func (p *deployment) listens(t *testing.T) {
	t.Helper()
	const many = 1 << 20 // more than all others have
	for _, reg := range p.replicas {
		poll(t, "a replica to listen", func(context.Context) error {
			p.announce(t, &buildv1.Presence{Worker: "probe", Slots: many})
			if slots, err := gauge(reg, "slipway_build_worker_slots"); err != nil || slots < many {
				return fmt.Errorf("it knows of %v slots, %w", slots, err)
			}
			return nil
		})
	}
	p.announce(t, &buildv1.Presence{Worker: "probe"})
	for _, reg := range p.replicas {
		poll(t, "the probe to be gone", func(context.Context) error {
			if slots, err := gauge(reg, "slipway_build_worker_slots"); err != nil || slots >= many {
				return fmt.Errorf("it knows of %v slots, %w", slots, err)
			}
			return nil
		})
	}
}

// announce publishes what a worker says of itself.
func (p *deployment) announce(t *testing.T, what *buildv1.Presence) {
	t.Helper()
	raw, err := proto.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.bus.Publish(buildbus.Workers, raw); err != nil {
		t.Fatal(err)
	}
}

// gauge is the sum of a gauge over its labels.
func gauge(reg prometheus.Gatherer, name string) (sum float64, err error) {
	families, err := reg.Gather()
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue()
		}
	}
	return sum, err
}

func (p *deployment) keychain() *caller.Keychain {
	if p.logins != nil {
		return p.logins
	}
	return caller.NewKeychain(nil, nil).WithOwn(caller.Own{Host: p.up.Host, Repository: "builds"})
}

// request is for an image that text decides.
func (p *deployment) request(text, scope string, who *platformv1.Identity) *buildv1.SubmitBuildRequest {
	sum := sha256.Sum256([]byte(text + scope))
	d := hex.EncodeToString(sum[:])
	repository := "builds"
	if scope != "" {
		repository += "/" + scope
	}
	return &buildv1.SubmitBuildRequest{
		ContentId: d[:16], ContentDigest: d, Scope: scope, Identity: who,
		Recipe: &buildv1.Recipe{ContainerFile: "FROM scratch\n# " + text, Platform: "linux/amd64", Engine: "buildkit"},
		Target: &buildv1.Target{Registry: p.up.Host, Repository: repository, Tag: d[:16]},
	}
}

func (r replica) submit(t *testing.T, req *buildv1.SubmitBuildRequest) *buildv1.SubmitBuildResponse {
	t.Helper()
	resp, err := r.SubmitBuild(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (r replica) state(t *testing.T, id string) *buildv1.AwaitBuildResponse {
	t.Helper()
	resp, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: id, NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// push is what a worker does at the end: the image is at the registry, with the
// annotations by which it is known.
func (p *deployment) push(t *testing.T, req *buildv1.SubmitBuildRequest, id string) (digest string) {
	t.Helper()
	annotated := mutate.Annotations(testkit.Image(t, "amd64", true), map[string]string{
		"dev.slipway.build-id": id, "dev.slipway.content-digest": req.GetContentDigest(),
	})
	img, ok := annotated.(v1.Image)
	if !ok {
		t.Fatalf("%T is no image", annotated)
	}
	p.up.Push(t, req.GetTarget().GetRepository()+":"+req.GetTarget().GetTag(), img)
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func TestOneBuildForMany(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		replicas := []replica{p.replica(t, 1), p.replica(t, 1)} // one build is all that the quota allows
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

// TestCancelWhileItIsTaken cancels a build at the moment in which a worker takes it: it
// is cancelled, and its worker is told so that it believes it.
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
			for range i % 5 { // at another moment of the cancelling each time
				_, _ = r.GetBuildStatus(t.Context(), &buildv1.GetBuildStatusRequest{BuildId: id})
			}
			job, _ = r.TakeJob(t.Context(), &buildv1.TakeJobRequest{BuildId: id, Delivery: 1, Worker: "test"}) // too late, or not
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

// TestJobsInHandStay ends a build while its worker has another: that one's job would
// come again if the worker were lost.
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

// hashOf is how a ticket is kept.
func hashOf(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return hex.EncodeToString(sum[:])
}
