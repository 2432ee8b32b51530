// Package buildkit is the engine that makes images of Dockerfiles. It speaks to a
// BuildKit daemon; none is linked in. What the daemon may read is decided here, build by
// build (sources), and so is with which login (keyring). It keeps no file longer than a
// build; layers are kept by the daemon, and in the cache repository of the job.
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

// Local is a BuildKit daemon on this machine that somebody keeps running. Safe
// for concurrent use.
type Local interface {
	// Address is where it listens now, or why it does not.
	Address() (string, error)
	// Admit gives a build of a scope (letters and digits) its share of the machine.
	// Builds of different scopes find none of each other's steps in the cache.
	Admit(scope string) step.Share
	// Grown is by how many bytes its folder may have grown since a time.
	Grown(since time.Time) int64
}

// Options are the settings of the engine. Either Local, Addresses or
// Problem is set.
type Options struct {
	// RegistryDeps may lack Registries: then whoever knows a digest is trusted, and nothing
	// is frozen.
	remote.Deps
	// Local is the daemon of this process.
	Local Local
	// Addresses are daemons that run elsewhere: `tcp://…`, `unix://…`.
	Addresses []string
	// TLS is for those that speak TCP; nil speaks in the clear.
	TLS *tls.Config
	// Problem is why there is no daemon at all.
	Problem string
	// Dir holds build contexts while a build runs; "" is the machine's own.
	Dir string
	// Disk is by how many bytes a build may make Local's folder grow; 0 is no limit.
	Disk int64
	Log  *slog.Logger
}

// Engine makes images of Dockerfiles. It speaks to a daemon; none is linked in.
type Engine struct {
	o     Options
	alone chan struct{} // held by the one build that is tried for the last time

	mu      sync.Mutex
	began   time.Time
	daemons map[string]*daemonState
}

// startup is how long a daemon may take for its first answer.
const startup = 10 * time.Second

// New makes the engine. It knows of no architectures until Run has reached a
// daemon.
func New(o Options) *Engine {
	b := &Engine{o: o, alone: make(chan struct{}, 1), began: time.Now(), daemons: map[string]*daemonState{}}
	for _, a := range b.names() {
		b.daemons[a] = &daemonState{}
	}
	return b
}

// Run keeps in touch with the daemons until ctx ends. It starts and stops none.
func (b *Engine) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	for _, a := range b.names() {
		watches.Go(func() { b.watch(ctx, a) })
	}
	watches.Wait()
	return nil
}

// Name is "buildkit".
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

// Problem says why there are no architectures; "" while a daemon starts.
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
