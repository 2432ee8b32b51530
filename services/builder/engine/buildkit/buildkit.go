// Package buildkit is the engine that builds Dockerfiles with a BuildKit daemon. For each
// build it decides what the daemon may read (sources) and with which login (keyring). It
// stores no file longer than a build. Layers are stored by the daemon and in the job's
// cache repository.
package buildkit

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"sync"
	"time"

	"slipway.dev/services/builder/daemon/step"
	"slipway.dev/services/builder/remote"
)

// Local is a BuildKit daemon on this machine. It is safe for concurrent use.
type Local interface {
	// Address returns the daemon's address, or an error while it is not running.
	Address() (string, error)
	// Admit registers a build of a scope (letters and digits) and returns its share of the
	// machine. Builds of different scopes do not share cached steps.
	Admit(scope string) step.Share
	// GrowthSince returns how many bytes its folder may have grown since a time.
	GrowthSince(since time.Time) int64
}

// Options are the settings of the engine. Exactly one of Local, Addresses and Problem is
// set.
type Options struct {
	// Registries may be nil: then a client that knows a digest is trusted, and freezing is
	// disabled.
	remote.Deps
	// Local is this process's own daemon.
	Local Local
	// Addresses are the addresses of remote daemons: `tcp://…`, `unix://…`.
	Addresses []string
	// TLS is the configuration for TCP; nil uses no TLS.
	TLS *tls.Config
	// Problem is the reason why there is no daemon.
	Problem string
	// Dir is the folder for the contexts of running builds; "" is the system's.
	Dir string
	// Disk limits in bytes how much a build may grow Local's folder; 0 means no limit.
	Disk int64
	Log  *slog.Logger
}

// Engine builds Dockerfiles with a BuildKit daemon.
type Engine struct {
	o         Options
	exclusive chan struct{} // held by the one build that is retried alone

	mu      sync.Mutex
	began   time.Time
	daemons map[string]*daemonState
}

// startup is the timeout of a daemon's first response.
const startup = 10 * time.Second

// New creates the engine. It has no architectures until Run has reached a daemon.
func New(o Options) *Engine {
	b := &Engine{o: o, exclusive: make(chan struct{}, 1), began: time.Now(), daemons: map[string]*daemonState{}}
	for _, a := range b.names() {
		b.daemons[a] = &daemonState{}
	}
	return b
}

// Run polls the daemons until ctx ends. It does not start or stop them.
func (b *Engine) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	for _, a := range b.names() {
		watches.Go(func() { b.watch(ctx, a) })
	}
	watches.Wait()
	return nil
}

// Name returns "buildkit".
func (b *Engine) Name() string { return "buildkit" }

// local is the name of the daemon on this machine.
const local = "local"

func (b *Engine) names() []string {
	if b.o.Local != nil {
		return []string{local}
	}
	return b.o.Addresses
}

// Architectures lists what any of the daemons can build for.
func (b *Engine) Architectures() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, d := range b.daemons {
		for _, a := range d.archs {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// Problem returns the reason why there are no architectures; "" while a daemon starts.
func (b *Engine) Problem() string {
	if len(b.Architectures()) > 0 {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	problem := cmp.Or(b.o.Problem, "no BuildKit daemon is configured")
	for _, d := range b.daemons {
		if problem = d.problem; problem == "" {
			break
		}
	}
	return problem
}
