// Package build owns builds: it decides whether an image has to be made, queues
// the work fairly, and tells how it goes. It never makes an image itself, but for
// the index over two of them: workers take jobs from the bus and ask this room
// for the rest (WorkService). The truth
// is the tables build_*; a job in flight and a log that is being written are on
// the bus (streams BUILD_JOBS, BUILD_EVENTS, BUILD_LOGS, which this room makes).
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
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
)

// Migrations are this room's changes of the schema, for sqldb.DB.Migrate.
func Migrations() fs.FS { return migrations.FS() }

// Deps is what the service works with.
type Deps struct {
	DB       *sqldb.DB
	Bus      *nats.Conn
	Platform platformv1.PlatformServiceClient
	Upstream *upstream.Client
	Control  *upstream.Control
	Keychain *caller.Keychain
	Limiter  *ratelimit.Limiter
	Metrics  prometheus.Registerer
	Log      *slog.Logger
	// Now is the clock.
	Now func() time.Time

	Settings
}

// Settings are the service's choices.
type Settings struct {
	// LayerStore is how many bytes of build contexts are kept; 0 is no bound.
	LayerStore int64
	// BuildsUser and BuildsAnonymous are how many builds one caller may start.
	BuildsUser, BuildsAnonymous ratelimit.Limit
	// OwnMachineFree leaves clients on this machine out of BuildsAnonymous: whoever tries
	// the service out is locked out by nobody but themselves.
	OwnMachineFree bool
	// RunningUser and RunningAnonymous are how many builds of one kind one owner may
	// have with the workers at a time; 0 is no limit beside the turns.
	RunningUser, RunningAnonymous int
	// TimeUser and TimeAnonymous are how long one build may take.
	TimeUser, TimeAnonymous time.Duration
	// Retention is how long a build is remembered after it ended; 0 is for ever.
	Retention time.Duration
	// Own is the service's own repository, "<host>/<repository>": nothing that is
	// built may read from it.
	Own string
	// LayerMemory is how long workers take layers of packages from each other.
	LayerMemory time.Duration
	// BuildersOnDemand says that workers are started when builds wait: having none is
	// no reason to refuse one.
	BuildersOnDemand bool
}

// Service implements buildv1.BuildServiceServer and buildv1.WorkServiceServer.
// Make it with New, then Run it.
type Service struct {
	buildv1.UnimplementedBuildServiceServer
	buildv1.UnimplementedWorkServiceServer
	deps      Deps
	store     store.Store
	bus       jetstream.JetStream
	space     *sqldb.Space
	workers   *workers.Watch
	logs      *logs.Logs
	queue     *queue.Queue
	estimates estimate.Estimator
	ended     *endings
	metrics   metrics
	outbox    *metricsbus.Outbox
	signs     signs
	// queued wakes the dispatcher, admitted the outbox.
	queued, admitted chan struct{}
}

// New makes the service, which does nothing until Run: what is published until then
// waits. The tables must be there; NATS may come later.
func New(d Deps) (*Service, error) {
	js, err := jetstream.New(d.Bus)
	if err != nil {
		return nil, err
	}
	rows, seen := store.New(d.DB), workers.New(d.Now, d.BuildersOnDemand)
	s := &Service{
		deps: d, store: rows, bus: js, workers: seen, logs: logs.New(js, rows),
		space:     sqldb.NewSpace(d.DB, "build_contexts", d.LayerStore),
		estimates: estimate.Estimator{Store: rows, Workers: seen, Now: d.Now},
		ended:     newEndings(), metrics: newMetrics(d.Metrics),
		queued: make(chan struct{}, 1), admitted: make(chan struct{}, 1),
	}
	s.queue = &queue.Queue{
		Bus: js, Store: rows, Workers: seen, Logs: s.logs, Now: d.Now, RunningUser: d.RunningUser, RunningAnonymous: d.RunningAnonymous,
	}
	if s.outbox, err = s.newOutbox(); err != nil {
		return nil, err
	}
	// A worker that starts with us says at once what it can do.
	if s.signs, err = subscribe(d.Bus); err != nil {
		return nil, err
	}
	d.Metrics.MustRegister(&queue.Backlog{Queue: s.queue, Log: d.Log})
	return s, nil
}

// wake makes whoever reads a channel of one place look now.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will look anyway
	}
}

// Run takes results from the bus, hands out work and repairs what was lost,
// until ctx ends. NATS may go and come.
func (s *Service) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { s.signs.workers.Run(ctx, s.observeWorker) })
	all.Go(func() { s.signs.done.Run(ctx, s.observeDone) })
	all.Go(func() { s.signs.givenUp.Run(ctx, s.observeGivenUp) })
	for _, task := range []func(context.Context){s.consumeResults, s.outbox.Run, s.work} {
		all.Go(func() { task(ctx) })
	}
	all.Wait()
	return nil
}

// signs are what the service hears of from elsewhere.
type signs struct{ workers, done, givenUp *bus.Subscription }

func subscribe(nc *nats.Conn) (s signs, err error) {
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

// work dispatches when there is reason to, and sweeps from time to time.
func (s *Service) work(ctx context.Context) {
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

// metrics count builds.
type metrics struct {
	admitted *prometheus.CounterVec
	ended    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		admitted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_build_requests_total", Help: "Images asked for, by where they come from: new, joined or cached.",
		}, []string{"outcome"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_builds_total", Help: "Builds that ended, by reason; succeeded means that the image was made.",
		}, []string{"reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slipway_build_seconds", Help: "Time of builds, by phase: queued, then running.",
			Buckets: []float64{.1, .5, 2, 10, 30, 60, 120, 300, 600, 1500},
		}, []string{"phase"}),
	}
	reg.MustRegister(m.admitted, m.ended, m.seconds)
	return m
}
