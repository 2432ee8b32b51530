// Package build owns builds: it decides whether an image has to be built, queues the work
// fairly, and reports its progress. Workers build the images: they take jobs from the bus and
// call this service for everything else (WorkService). Only indexes of two images are created
// by this service itself. The state is stored in the tables build_*.
// Jobs in progress and unfinished logs are on the bus, in the streams BUILD_JOBS,
// BUILD_EVENTS and BUILD_LOGS, which this service creates.
package build

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build/estimate"
	"slipway.dev/services/build/logs"
	"slipway.dev/services/build/migrations"
	"slipway.dev/services/build/queue"
	"slipway.dev/services/build/store"
	"slipway.dev/services/build/workers"
	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
)

// Migrations returns the service's schema changes for sqldb.DB.Migrate.
func Migrations() fs.FS { return migrations.FS() }

// Deps are the dependencies of the service.
type Deps struct {
	DB       *sqldb.DB
	Bus      *nats.Conn
	Platform platformv1.AccessServiceClient
	Upstream *upstream.Client
	Control  *upstream.Control
	Keychain *caller.Keychain
	Limiter  *ratelimit.Limiter
	// Signer signs Singularity images; nil signs none.
	Signer  *attest.Signer
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now returns the current time.
	Now func() time.Time

	Settings
}

// Settings are the service's settings.
type Settings struct {
	// LayerStore limits the stored build contexts in bytes; 0 means no limit.
	LayerStore int64
	// OwnMachineFree reports whether anonymous clients on this machine may start any number
	// of builds, so that a user who tries the service locally is not limited. nil means no.
	OwnMachineFree func() bool
	// RunningUser and RunningAnonymous limit how many builds of one kind each owner may
	// have with the workers at a time; 0 means no limit besides fair scheduling.
	RunningUser, RunningAnonymous int
	// LimitsWait is how long after its start the service waits for the limits of organisations,
	// workspaces and users before it dispatches the first build; 0 means not at all.
	LimitsWait time.Duration
	// ReserveForUsers reserves slots of workers for builds of users. If all clients are on
	// this machine, it would only leave slots unused.
	ReserveForUsers bool
	// TimeUser and TimeAnonymous limit the duration of a build.
	TimeUser, TimeAnonymous time.Duration
	// Retention is how long an ended build is stored; 0 is forever.
	Retention time.Duration
	// Own is the service's own repository, "<host>/<repository>". Builds must not read from
	// it.
	Own string
	// PlatformURL is the address of this platform, whose users builds are counted for.
	PlatformURL string
	// LayerMemory is how long workers reuse each other's layers of packages; 0 is forever.
	LayerMemory time.Duration
	// ImageRules are the operator's rules about images that builds read; nil for none.
	ImageRules *buildv1.ImageRules
	// VerifyRebuild is the share of images of packages that another worker builds again, from 0 to 1.
	VerifyRebuild float64
	// BuildersOnDemand states that workers are started when builds wait, so that builds are
	// not rejected for a lack of workers.
	BuildersOnDemand bool
}

// Service implements buildv1.BuildServiceServer and buildv1.WorkServiceServer. Create it
// with New, then call Run.
type Service struct {
	buildv1.UnimplementedBuildServiceServer
	buildv1.UnimplementedWorkServiceServer
	deps      Deps
	store     store.Store
	bus       jetstream.JetStream
	space     *sqldb.Quota
	workers   *workers.Watch
	logs      *logs.Logs
	queue     *queue.Queue
	estimates estimate.Estimator
	ended     *endings
	metrics   metrics
	// rebuilds counts the results of rebuilds, and rebuildKey selects them.
	rebuilds   *prometheus.CounterVec
	rebuildKey *rebuildKey
	// admissions and durations publish events for counting.
	admissions, durations *metricsbus.Outbox
	subscriptions         subscriptions
	totals                *totals
	// dispatching is the outage of what dispatching builds needs.
	dispatching retry.Outage
	// queued wakes the dispatcher, admitted the outbox of admissions, and happened the publication of events.
	queued, admitted, happened chan struct{}
}

// New creates the service. It subscribes to the bus, and messages wait until Run handles
// them. The tables must exist; NATS may become available later.
func New(d Deps) (*Service, error) {
	js, err := jetstream.New(d.Bus)
	if err != nil {
		return nil, err
	}
	rows, seen := store.New(d.DB), workers.New(d.Now, d.BuildersOnDemand)
	s := &Service{
		deps: d, store: rows, bus: js, workers: seen, logs: logs.New(js, rows),
		space: sqldb.NewQuota(d.DB, "build_contexts", d.LayerStore),
		estimates: estimate.Estimator{Store: rows, Workers: seen, Now: d.Now, RunningOf: func(l store.Load) []ratelimit.RunningLimit {
			return d.Limiter.RunningOf(l.Caller.Charged(context.Background()))
		}},
		ended: newEndings(), totals: newTotals(), metrics: newMetrics(d.Metrics), rebuilds: newRebuildMetric(d.Metrics), rebuildKey: &rebuildKey{store: rows},
		queued: make(chan struct{}, 1), admitted: make(chan struct{}, 1), happened: make(chan struct{}, 1),
		dispatching: retry.Outage{Log: d.Log, Fails: "Builds cannot be dispatched right now; they wait", Works: "Builds are dispatched again"},
	}
	s.queue = &queue.Queue{
		Bus: js, Store: rows, Workers: seen, Logs: s.logs, Now: d.Now, RunningUser: d.RunningUser, RunningAnonymous: d.RunningAnonymous,
		RunningOf: func(r store.Record) []ratelimit.RunningLimit {
			return d.Limiter.RunningOf(caller.Of(r.Request.GetIdentity()).Charged(context.Background()))
		},
		ReserveForUsers: d.ReserveForUsers,
	}
	if s.admissions, s.durations, err = s.newOutboxes(); err != nil {
		return nil, err
	}
	// Subscribe before Run, so that the first report of a worker that starts at the same time
	// is not lost.
	if s.subscriptions, err = subscribe(d.Bus); err != nil {
		return nil, err
	}
	d.Metrics.MustRegister(&queue.Backlog{Queue: s.queue, Log: d.Log}, eventMetrics{s}, rebuildMetrics{s})
	return s, nil
}

// wake sends to a channel of capacity one, to wake its reader.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // already awake
	}
}

// Run handles results from the bus, dispatches work and repairs lost state until ctx ends,
// also when NATS is temporarily unavailable.
func (s *Service) Run(ctx context.Context) error {
	if err := s.deps.Bus.Publish(buildbus.RollCall, nil); err != nil {
		s.deps.Log.WarnContext(ctx, "Workers were not asked to report; they do within seconds", "err", err)
	}
	var all sync.WaitGroup
	all.Go(func() { s.subscriptions.workers.Run(ctx, s.observeWorker) })
	all.Go(func() { s.subscriptions.done.Run(ctx, s.observeDone) })
	all.Go(func() { s.subscriptions.givenUp.Run(ctx, s.observeGivenUp) })
	for _, task := range []func(context.Context){s.consumeResults, s.admissions.Run, s.durations.Run, s.publishEvents, s.work} {
		all.Go(func() { task(ctx) })
	}
	all.Wait()
	return nil
}

// subscriptions are the service's subscriptions.
type subscriptions struct{ workers, done, givenUp *bus.Subscription }

func subscribe(nc *nats.Conn) (s subscriptions, err error) {
	var errs [3]error
	s.workers, errs[0] = bus.Subscribe(nc, buildbus.Workers, "")
	s.done, errs[1] = bus.Subscribe(nc, buildbus.AnyDone, "")
	s.givenUp, errs[2] = bus.Subscribe(nc, buildbus.GivenUp, "build")
	return s, errors.Join(errs[:]...)
}

func (s *Service) observeWorker(_ context.Context, m *nats.Msg) {
	if s.workers.Observe(m.Data) {
		wake(s.queued) // there are more slots than before
	}
}

func (s *Service) observeDone(_ context.Context, m *nats.Msg) {
	s.ended.notify(buildbus.DoneID(m.Subject))
	wake(s.queued)
}

// awaitLimits waits until the limits of organisations, workspaces and users are known, for at most
// LimitsWait: a restart must not start more builds than they allow.
func (s *Service) awaitLimits(ctx context.Context) {
	if s.deps.LimitsWait <= 0 {
		return
	}
	bound := time.NewTimer(s.deps.LimitsWait)
	defer bound.Stop()
	select {
	case <-ctx.Done():
	case <-s.deps.Limiter.OwnKnown():
	case <-bound.C:
		s.deps.Log.WarnContext(ctx, "Builds start without the limits of organisations, workspaces and users, which cannot be read", "waited", s.deps.LimitsWait.String())
	}
}

// work dispatches builds when woken, and sweeps periodically.
func (s *Service) work(ctx context.Context) {
	s.awaitLimits(ctx)
	sweep := time.NewTicker(15 * time.Second)
	defer sweep.Stop()
	for {
		s.dispatch(ctx)
		select {
		case <-ctx.Done():
			return
		case <-s.queued:
		case <-sweep.C:
			s.sweep(ctx)
		}
	}
}

// metrics are the metrics of builds.
type metrics struct {
	admitted *prometheus.CounterVec
	ended    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		admitted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_build_requests_total", Help: "Requested images by origin: new, joined or cached.",
		}, []string{"outcome"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_builds_total", Help: "Ended builds by reason; succeeded means that the image was built.",
		}, []string{"reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slipway_build_seconds", Help: "Duration of builds by phase: queued, then running.",
			Buckets: []float64{.1, .5, 2, 10, 30, 60, 120, 300, 600, 1500},
		}, []string{"phase"}),
	}
	reg.MustRegister(m.admitted, m.ended, m.seconds)
	return m
}
