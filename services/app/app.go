// Package app puts the rooms together: it opens what a process needs, embedded or
// real, builds the roles it plays, connects them over memory or the network, and
// stops everything in reverse order. There is no logic of images or requests
// here.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/memory"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

// App is a process that plays roles. Make it with New, then Run it.
type App struct {
	cfg  config.Config
	from Build
	log  *slog.Logger
	reg  *collected
	// seconds measures the REST API.
	seconds *prometheus.HistogramVec
	roles   []role

	// What the roles share; nil where no role needs it.
	db     *sqldb.DB
	redis  redis.UniversalClient
	nats   *nats.Conn
	net    network
	limits *ratelimit.Limiter
	// shedder keeps the process within its memory.
	shedder *shedder
	// storeLogin opens the embedded image store; zero where there is none.
	storeLogin upstream.Login
	// images is the embedded image store; nil where there is none.
	images *store.Store
	// storeGrant makes the logins of builds for it; nil where there is none.
	storeGrant func(caller.Grant) upstream.Login

	// What the roles offer.
	services    []func(*rpc.Server)
	conns       map[string]grpc.ClientConnInterface
	api         http.Handler // REST
	platformAPI http.Handler // the platform's REST
	pulls       http.Handler // /v2/

	servers    []*rpc.Server
	listeners  listeners
	background []func(context.Context) error
	// workers run jobs, with all of the above: they end before it does.
	workers    []func(context.Context) error
	checks     []check
	draining   atomic.Bool
	onDrain    []func()
	firstToken string
	// trial is that of the build daemon's steps; nil where none is to run here.
	trial *daemon.Trial
	// canBuild says whether a builder here has a daemon, or is told of one.
	canBuild bool
	// problems are what the person who started it should know.
	problems []string
	// closers undo what New did, last first.
	closers []func() error
}

// Build is what the program was built from.
type Build struct{ Version, Commit string }

// New opens everything that the chosen roles need (none chosen: all) and builds
// them. Nothing is served yet. On error, what was opened is closed again.
func New(ctx context.Context, cfg config.Config, names []string, b Build, log *slog.Logger) (_ *App, err error) {
	chosen, err := choose(names)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.Validate(), shape(cfg, chosen)); err != nil {
		return nil, err
	}
	a := &App{
		cfg: cfg, from: b, log: log, roles: chosen,
		reg: &collected{Registry: prometheus.NewRegistry()}, conns: map[string]grpc.ClientConnInterface{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	a.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &dependencies{a})
	a.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "slipway_log_dropped_total", Help: "Lines of the log that were dropped because what reads them is too slow.",
	}, func() float64 { return dropped(log) }))
	a.shedder = newShedder(memory.Apply(int64(cfg.MemoryLimit), os.DirFS("/")), int64(cfg.BodyMemory), a.reg)
	steps := []func(context.Context) error{a.trySteps, a.openTelemetry, a.openData, a.openDatastores, a.openImageStore, a.openNetwork, a.connect, a.build, a.listen}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *App) build(context.Context) error {
	for _, r := range a.roles {
		if err := r.build(a); err != nil {
			return fmt.Errorf("starting the role %s: %w", r.name, err)
		}
	}
	for _, s := range a.servers {
		for _, register := range a.services {
			register(s)
		}
	}
	return nil
}

// plays says whether a role is played in this process.
func (a *App) plays(name string) bool {
	return slices.ContainsFunc(a.roles, func(r role) bool { return r.name == name })
}

// isWhole says whether this process plays all roles.
func (a *App) isWhole() bool { return len(a.roles) == len(roles()) }

// needs says whether any role needs what pick picks.
func (a *App) needs(pick func(need) bool) bool {
	return slices.ContainsFunc(a.roles, func(r role) bool { return pick(r.need) })
}

func (a *App) onClose(f func() error) { a.closers = append(a.closers, f) }

func (a *App) close() error {
	var problems []error
	for _, f := range slices.Backward(a.closers) {
		problems = append(problems, f())
	}
	a.closers = nil
	return errors.Join(problems...)
}

// dir is a folder below data_dir.
func (a *App) dir(name string) string { return filepath.Join(a.cfg.DataDir, name) }

// Run serves until ctx ends or something fails, then drains and stops. It may be
// called once.
func (a *App) Run(ctx context.Context) error {
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	jobs, stopJobs := context.WithCancel(work)
	defer stopJobs()
	tasks := append(a.listeners.tasks(a), a.background...)
	running := len(tasks) + len(a.workers)
	ended := make(chan error, running)
	for _, task := range tasks {
		go func() { ended <- task(work) }()
	}
	var workers sync.WaitGroup
	for _, worker := range a.workers {
		workers.Go(func() { ended <- worker(jobs) })
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-ended:
		running--
	}
	failure = errors.Join(failure, a.drain(failure == nil, func() { stopJobs(); workers.Wait() }))
	stopWork(nil)
	for range running {
		failure = errors.Join(failure, <-ended)
	}
	return errors.Join(failure, a.close())
}

// drain stops taking work, lets what runs finish, and ends the listeners. Jobs that do
// not finish in time are handed back; until then the rooms, the bus and the image store
// are there for them.
func (a *App) drain(orderly bool, endJobs func()) error {
	a.log.Info("Stopping: running pulls and builds may finish", "timeout", a.cfg.DrainTimeout.String())
	a.draining.Store(true)
	for _, s := range a.servers {
		s.Drain()
	}
	if orderly {
		time.Sleep(a.cfg.DrainDelay)
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.DrainTimeout)
	defer cancel()
	for _, f := range a.onDrain {
		f()
	}
	jobs := make(chan struct{})
	go func() { endJobs(); close(jobs) }()
	err := a.listeners.stop(ctx)
	<-jobs
	for _, s := range a.servers {
		s.Stop(ctx)
	}
	return err
}

// FirstToken is the access token that this start made for the first user; ""
// when there was one already. Secret: it is for the person who started it.
func (a *App) FirstToken() string { return a.firstToken }

func (a *App) names() []string {
	names := make([]string, len(a.roles))
	for i, r := range a.roles {
		names[i] = r.name
	}
	return names
}

func (a *App) embedded() []string {
	var list []string
	for _, e := range []struct {
		name string
		is   bool
	}{
		{"NATS", a.nats != nil && a.cfg.NATSURL == ""},
		{"Redis", a.redis != nil && a.cfg.RedisURL == ""},
		{"SQLite", a.db != nil && a.db.IsSQLite()},
		{"image store", a.hasStore()},
	} {
		if e.is {
			list = append(list, e.name)
		}
	}
	return list
}

// Addr is where the public listener is; nil when no role has one. For tests that
// listen on port 0.
func (a *App) Addr() net.Addr { return a.listeners.publicAddr() }

// AdminAddr is where the admin listener is.
func (a *App) AdminAddr() net.Addr { return a.listeners.admin.on.Addr() }

// dataMarker is a file in data_dir that says what the folder is, so that nobody
// packs it into an image: `slipway` leaves out folders that hold one.
const dataMarker = ".slipway-data"

func mustHave(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	const text = "This folder holds the data and keys of a slipwayd. Do not put it into images, repositories or shared folders.\n"
	if err := os.WriteFile(filepath.Join(dir, dataMarker), []byte(text), 0o600); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	return nil
}
