// Package app assembles a process: it opens the stores that the process needs, embedded or
// external, starts the roles that it plays, connects them over memory or the network, and
// stops everything in reverse order. Roles are rows of the table in roles.go; an env is what
// they share, and parts are what they add to the process. The package has no logic of images
// or requests.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/memory"
	"slipway.dev/services/internal/rpc"
)

// App is a process that plays roles. Create it with New, then call Run.
type App struct {
	*env
	// parts are what the stores and roles of the process added, in the order of their start.
	parts []parts
	// servers are the gRPC servers: one over memory, and one on the network if needed.
	servers   []*rpc.Server
	listeners listeners
	// shedder keeps the process within its memory limit.
	shedder *shedder
	// seconds measures the REST API.
	seconds  *prometheus.HistogramVec
	draining atomic.Bool
}

// Build describes the source that the program was built from.
type Build struct{ Version, Commit string }

// New opens everything that the chosen roles need (all roles if names is empty) and starts
// them. Nothing is served before Run. On error, everything that was opened is closed.
func New(ctx context.Context, cfg config.Config, names []string, b Build, log *slog.Logger) (_ *App, err error) {
	chosen, err := choose(names)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.Validate(), checkRoles(cfg, chosen)); err != nil {
		return nil, err
	}
	reg := &collected{Registry: prometheus.NewRegistry()}
	a := &App{env: newEnv(cfg, chosen, b, log, reg)}
	a.allChecks = a.checks
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &dependencies{a})
	reg.MustRegister(a.certificates, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slipway_clock_seconds", Help: "This machine's clock as Unix time.",
	}, func() float64 { return float64(time.Now().UnixMilli()) / 1e3 }))
	if cfg.TLSCertFile != "" || cfg.RPCCertFile != "" || cfg.BuildkitCertFile != "" {
		a.parts = append(a.parts, parts{checks: []check{newCheck("certificates", optional, a.certificates.check)}})
	}
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "slipway_log_dropped_total", Help: "Lines of the log that were dropped because the reader of the log is too slow.",
	}, func() float64 { return dropped(log) }))
	a.shedder = newShedder(memory.Apply(int64(cfg.MemoryLimit), os.DirFS("/")), int64(cfg.BodyMemory), a.turns, reg)
	for _, step := range []func(context.Context) (parts, error){
		a.trySteps, a.openTelemetry, a.openData, a.openDatabase, a.openRedis, a.openBus, a.openImageStore, a.openNetwork, a.connect, a.watchReplicas,
	} {
		p, err := step(ctx)
		if err != nil {
			return nil, err
		}
		a.parts = append(a.parts, p)
	}
	if err := a.startRoles(ctx); err != nil {
		return nil, err
	}
	if err := a.listen(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// startRoles starts the roles, callees first, and registers their gRPC services.
func (a *App) startRoles(ctx context.Context) error {
	for _, r := range a.roles {
		p, err := r.start(ctx, a.env)
		if err != nil {
			return fmt.Errorf("starting the role %s: %w", r.name, err)
		}
		a.parts = append(a.parts, p)
		if p.register != nil {
			for _, s := range a.servers {
				p.register(s)
			}
		}
	}
	return nil
}

// Run serves until ctx ends or a part of the process fails, then drains and stops. It may be
// called once.
func (a *App) Run(ctx context.Context) error {
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	jobs, stopJobs := context.WithCancel(work)
	defer stopJobs()
	tasks := a.listeners.tasks()
	var workers []func(context.Context) error
	for _, p := range a.parts {
		tasks = append(tasks, p.run...)
		if p.jobs != nil {
			workers = append(workers, p.jobs)
		}
	}
	running := len(tasks) + len(workers)
	ended := make(chan error, running)
	for _, task := range tasks {
		go func() { ended <- task(work) }()
	}
	var working sync.WaitGroup
	for _, worker := range workers {
		working.Go(func() { ended <- worker(jobs) })
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-ended:
		running--
	}
	failure = errors.Join(failure, a.drain(failure == nil, func() { stopJobs(); working.Wait() }))
	stopWork(nil)
	for range running {
		failure = errors.Join(failure, <-ended)
	}
	return errors.Join(failure, a.close())
}

// drain stops accepting work, lets running requests finish, and closes the listeners. Jobs
// that do not finish in time are returned to the queue. Services, bus and image store work
// until the jobs have ended.
func (a *App) drain(orderly bool, endJobs func()) error {
	a.log.Info("Stopping: running pulls and builds may finish", "pulls", a.cfg.DrainTimeout.String(), "builds", a.cfg.DrainBuilds.String())
	a.draining.Store(true)
	for _, s := range a.servers {
		s.Drain()
	}
	if orderly {
		time.Sleep(a.cfg.DrainDelay)
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.DrainTimeout)
	defer cancel()
	for _, p := range a.parts {
		if p.drain != nil {
			p.drain()
		}
	}
	jobs := make(chan struct{})
	go func() {
		defer close(jobs)
		endJobs()
		for _, p := range a.parts {
			if p.jobsEnded != nil && a.isWhole() {
				p.jobsEnded()
			}
		}
	}()
	err := a.listeners.stop(ctx)
	<-jobs
	for _, s := range a.servers {
		s.Stop(ctx)
	}
	return err
}

// FirstToken returns the access token that this start created for the first user; "" if
// there was a user already. It is secret: show it only to the person who started the process.
func (a *App) FirstToken() string {
	for _, p := range a.parts {
		if p.firstToken != "" {
			return p.firstToken
		}
	}
	return ""
}

// embedded returns the names of the stores that run in this process.
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

// Addr returns the address of the public listener; nil if no role has one. Tests that listen
// on port 0 use it.
func (a *App) Addr() net.Addr { return a.listeners.publicAddr() }

// AdminAddr returns the address of the admin listener.
func (a *App) AdminAddr() net.Addr { return a.listeners.admin.on.Addr() }
