// Package daemon keeps a BuildKit daemon running beside this process, in a sandbox:
// it and everything it starts have their own processes, mounts and network, and
// die together. Its network is a loopback with nothing on it but what this
// process offers there: a few addresses of this machine, and an HTTP proxy that
// keeps to the egress rules. Each step of a build has a network of its own in turn,
// with a proxy of its own and nothing else: no step reaches the daemon, another
// step, or what the daemon reaches. What it has built and cached is in its folder;
// no login is ever there.
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
	// Dir is where it keeps its caches. Required; made when it is not there.
	Dir string
	// Egress connects to other machines on behalf of builds, or refuses to; it
	// refuses what listens on this machine for the service itself. Required.
	Egress func(ctx context.Context, network, address string) (net.Conn, error)
	// Forward lists addresses on this machine's loopback ("127.0.0.1:5000") that the
	// daemon, but no step, reaches under the same address.
	Forward []string
	// Plain lists registries ("host:port") that are spoken to in plain http.
	Plain []string
	// Mirrors are asked first for the images that builds are made from.
	Mirrors []upstream.Mirror
	// Memory is how much a build's steps may use, in bytes; 0 is no limit.
	Memory int64
	// Pids is how many processes and threads a build's steps may have; 0 is no
	// limit.
	Pids int64
	// CPUs is how many processors' time a build's steps may use, e.g. 0.5; 0 is no
	// limit.
	CPUs float64
	// NoNewPrivileges takes the effect from setuid programs, such as sudo.
	NoNewPrivileges bool
	// DaemonMemory is how much the daemon itself may use, in bytes; 0 is no limit. It
	// is started again when it needs more.
	DaemonMemory int64
	// Runtime is the path of the runc to use, whatever its version; "" finds one that
	// has no known way out of a container.
	Runtime string
	// Trial is one of Runtime that has begun already; nil begins it with the daemon.
	Trial *Trial
	Log   *slog.Logger
}

// Daemon is a BuildKit daemon that is kept running. Safe for concurrent use.
type Daemon struct {
	o        Options
	programs programs
	stop     context.CancelFunc
	done     chan struct{}
	groups   *groups
	own      *group // the daemon's
	steps    *steps
	door     *net.UnixListener // where steps are presented

	mu      sync.Mutex
	child   *child // nil while there is none
	problem error
}

// Start starts one, and again whenever it ends, until ctx does or Close is
// called. It does not wait until the daemon answers. The error says, in words
// for an operator, why this machine cannot run one.
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
	if d.door, err = listenSteps(d.socket("steps")); err != nil {
		return nil, fmt.Errorf("the build daemon cannot be started: %w", err)
	}
	if o.DaemonMemory > 0 {
		d.own = d.groups.make("buildkitd", "daemon", memoryLimit(o.DaemonMemory))
	}
	if d.child, err = d.start(); err != nil {
		d.leave()
		return nil, fmt.Errorf("the build daemon cannot be started: %w", err)
	}
	go d.steps.serve(d.door)
	ctx, d.stop = context.WithCancel(ctx)
	go d.supervise(ctx, d.child)
	return d, nil
}

// leave gives back what the daemon had of the machine.
func (d *Daemon) leave() {
	_ = d.door.Close()
	d.own.release()
}

// Close ends the daemon and everything it started, and waits for that.
func (d *Daemon) Close() {
	d.stop()
	<-d.done
	d.leave()
}

// Address is where the daemon listens, or why there is none now.
func (d *Daemon) Address() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.child == nil {
		return "", d.problem
	}
	return "unix://" + d.socket("buildkitd"), nil
}

// Admit gives a build its share of the machine: see builder.Local.
func (d *Daemon) Admit(scope string) step.Share {
	g := d.groups.make(scope, "build", limitsOf(d.o))
	token := d.steps.builds.add(scope, newBuild(g.path()))
	return step.Share{
		Scope: "/" + groupsOfAll + "/" + scope, Token: token, OutOfMemory: g.outOfMemory, Kill: g.kill,
		Release: func() { d.steps.builds.remove(token); g.release() },
	}
}

// Grown is by how many bytes the daemon's folder may have grown since a time.
func (d *Daemon) Grown(since time.Time) int64 { return grown(d.o.Dir, since) }

// steady is how long a daemon must run for its next end to count as the first.
const steady = time.Minute

// supervise starts the daemon again whenever it ends, more slowly each time.
func (d *Daemon) supervise(ctx context.Context, c *child) {
	defer close(d.done)
	wait := 250 * time.Millisecond
	for {
		began := time.Now()
		if !d.outlives(ctx, c) {
			c.kill()
			d.become(nil, errors.New("the build daemon was stopped"))
			return
		}
		d.become(nil, fmt.Errorf("the build daemon ended: %w", c.err))
		d.o.Log.Error("The build daemon ended; it is started again", "err", c.err, "out_of_memory", d.own.outOfMemory())
		if time.Since(began) > steady {
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

// outlives waits until the child has ended; false when ctx ended first. A child whose
// memory stays full is ended: the system need not do that as long as it finds a page of the
// program's own to take, and meanwhile the child does nothing but fetch that again.
func (d *Daemon) outlives(ctx context.Context, c *child) bool {
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
		if seconds == starving {
			d.o.Log.Warn("The build daemon has used up its memory, and is ended", "memory", d.o.DaemonMemory)
			_ = c.cmd.Process.Kill()
		}
	}
}

// starving is for how many seconds its memory must be full for a daemon to be ended.
const starving = 5

// isFull says whether the daemon holds all but a twentieth of its memory for good.
func (d *Daemon) isFull() bool {
	return d.o.DaemonMemory > 0 && d.own.held() >= d.o.DaemonMemory/20*19
}

func (d *Daemon) become(c *child, problem error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.child, d.problem = c, problem
}
