// Package daemon runs a BuildKit daemon next to this process, in a sandbox. The daemon and
// everything it starts have their own processes, mounts and network, and end together. The
// network is a loopback with the listeners of this process only: a few forwarded addresses
// of this machine, and an HTTP proxy that enforces the egress rules. Each build step runs
// in another network, with its own proxy and nothing else, so that no step reaches the
// daemon, another step, or the daemon's addresses. The daemon's folder holds its caches and
// results, and never a login.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"slipway.dev/services/builder/daemon/step"
	"slipway.dev/services/internal/upstream"
)

// Options are the settings of a daemon.
type Options struct {
	// Dir is the folder of the daemon's caches. Required; it is created if missing.
	Dir string
	// Egress connects to other machines for builds, or denies the connection. It must deny
	// addresses of this machine that the service itself uses. Required.
	Egress func(ctx context.Context, network, address string) (net.Conn, error)
	// Forward lists loopback addresses of this machine ("127.0.0.1:5000") that the daemon
	// reaches under the same address. Steps do not reach them.
	Forward []string
	// Plain lists registries ("host:port") that use plain HTTP.
	Plain []string
	// Mirrors are tried first for base images.
	Mirrors []upstream.Mirror
	// Memory limits the memory of a build's steps in bytes; 0 means no limit.
	Memory int64
	// Pids limits the processes and threads of a build's steps; 0 means no limit.
	Pids int64
	// CPUs limits the processor time of a build's steps, for example 0.5; 0 means no limit.
	CPUs float64
	// NoNewPrivileges disables setuid programs, such as sudo.
	NoNewPrivileges bool
	// DaemonMemory limits the memory of the daemon itself in bytes; 0 means no limit. The
	// daemon is restarted when it exceeds the limit.
	DaemonMemory int64
	// Runtime is the path of the runc to use, whatever its version. "" finds one without a
	// known container escape.
	Runtime string
	// Trial is a trial of Runtime that has already begun; nil begins one with the daemon.
	Trial *Trial
	Log   *slog.Logger
}

// Daemon is a BuildKit daemon that is kept running. It is safe for concurrent use.
type Daemon struct {
	o        Options
	programs programs
	stop     context.CancelFunc
	done     chan struct{}
	groups   *groups
	own      *group // the daemon's own group
	steps    *steps
	listener *net.UnixListener // where slipway-runc presents steps

	mu      sync.Mutex
	child   *child // nil while the daemon is not running
	problem error
}

// Start starts a daemon, and restarts it when it ends, until ctx ends or Close is called.
// It does not wait until the daemon responds. The error explains to an operator why this
// machine cannot run one.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("only root can run the build daemon here: set buildkit_addr to one that runs elsewhere")
	}
	if o.Trial == nil {
		o.Trial = Try(ctx, o.Runtime)
		defer o.Trial.Close()
	}
	if _, _, err := o.Trial.Result(); err != nil {
		return nil, err
	}
	p := o.Trial.programs
	o.Log.Info("The build daemon runs steps with runc", "path", p.runtime, "version", p.version)
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the build daemon's folder cannot be made: %w", err)
	}
	d := &Daemon{o: o, programs: p, done: make(chan struct{}), groups: newGroups(groupsDir, o.Log), steps: newSteps(o.Egress, o.Log)}
	if d.listener, err = listenSteps(d.socket("steps")); err != nil {
		return nil, fmt.Errorf("the build daemon cannot be started: %w", err)
	}
	if o.DaemonMemory > 0 {
		d.own = d.groups.make("buildkitd", "daemon", memoryLimit(o.DaemonMemory))
	}
	if d.child, err = d.start(); err != nil {
		d.release()
		return nil, fmt.Errorf("the build daemon cannot be started: %w", err)
	}
	go d.steps.serve(d.listener)
	ctx, d.stop = context.WithCancel(ctx)
	go d.supervise(ctx, d.child)
	return d, nil
}

// release releases the daemon's resources.
func (d *Daemon) release() {
	_ = d.listener.Close()
	d.own.release()
}

// Close ends the daemon and everything it started, and waits for their end.
func (d *Daemon) Close() {
	d.stop()
	<-d.done
	d.release()
}

// Address returns the daemon's address, or an error while it is not running.
func (d *Daemon) Address() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.child == nil {
		return "", d.problem
	}
	return "unix://" + d.socket("buildkitd"), nil
}

// Admit registers a build: see buildkit.Local.
func (d *Daemon) Admit(scope string) step.Share {
	g := d.groups.make(scope, "build", limitsOf(d.o))
	token := d.steps.builds.add(scope, newBuild(g.path()))
	return step.Share{
		Scope: "/" + rootGroup + "/" + scope, Token: token, OutOfMemory: g.outOfMemory, Kill: g.kill,
		Release: func() { d.steps.builds.remove(token); g.release() },
	}
}

// GrowthSince returns how many bytes the daemon's folder may have grown since a time.
func (d *Daemon) GrowthSince(since time.Time) int64 { return grown(d.o.Dir, since) }

// stableAfter is how long a daemon must run until the delays of restarts start over.
const stableAfter = time.Minute

// supervise restarts the daemon whenever it ends, with increasing delays.
func (d *Daemon) supervise(ctx context.Context, c *child) {
	defer close(d.done)
	wait := 250 * time.Millisecond
	for {
		began := time.Now()
		if !d.waitEnded(ctx, c) {
			c.kill()
			d.become(nil, errors.New("the build daemon was stopped"))
			return
		}
		d.become(nil, fmt.Errorf("the build daemon ended: %w", c.err))
		d.o.Log.Error("The build daemon ended; it is started again", "err", c.err, "out_of_memory", d.own.outOfMemory())
		if time.Since(began) > stableAfter {
			wait = 250 * time.Millisecond
		}
		for c = nil; c == nil; wait = min(2*wait, 30*time.Second) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			var err error
			if c, err = d.start(); err != nil {
				d.become(nil, fmt.Errorf("the build daemon cannot be started: %w", err))
				d.o.Log.Error("The build daemon cannot be started; trying again", "err", err)
			}
		}
		d.become(c, nil)
	}
}

// waitEnded waits until the child has ended, and returns false if ctx ended first. It kills
// a child whose memory stays full: while the kernel can reclaim pages of the program, it
// does not kill the child, which then only reads these pages again.
func (d *Daemon) waitEnded(ctx context.Context, c *child) bool {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for seconds := 0; ; {
		select {
		case <-ctx.Done():
			return false
		case <-c.ended:
			return true
		case <-look.C:
		}
		if seconds++; !d.isFull() {
			seconds = 0
		}
		if seconds == fullSeconds {
			d.o.Log.Warn("The build daemon has used up its memory, and is ended", "memory", d.o.DaemonMemory)
			_ = c.cmd.Process.Kill()
		}
	}
}

// fullSeconds is for how many seconds the memory must be full before a daemon is killed.
const fullSeconds = 5

// isFull reports whether less than a twentieth of the daemon's memory limit is free or
// reclaimable.
func (d *Daemon) isFull() bool {
	return d.o.DaemonMemory > 0 && d.own.pinnedMemory() >= d.o.DaemonMemory/20*19
}

func (d *Daemon) become(c *child, problem error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.child, d.problem = c, problem
}
