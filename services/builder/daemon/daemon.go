// Package daemon keeps a BuildKit daemon running beside this process, in a cage:
// it and everything it starts have their own processes, mounts and network, and
// die together. Its network is a loopback with nothing on it but what this
// process offers there: a few addresses of this machine, and an HTTP proxy that
// keeps to the egress rules. What it has built and cached is in its folder; no
// login is ever there.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Options are the settings of a daemon.
type Options struct {
	// Dir is where it keeps its caches. Required; made when it is not there.
	Dir string
	// Egress connects to other machines on behalf of builds, or refuses to.
	// Required.
	Egress func(ctx context.Context, network, address string) (net.Conn, error)
	// Forward lists addresses on this machine's loopback ("127.0.0.1:5000") that
	// builds reach under the same address. RUN steps reach them too.
	Forward []string
	// Plain lists registries ("host:port") that are spoken to in plain http.
	Plain []string
	// Memory is how much a build's steps may use, in bytes; 0 is no limit.
	Memory int64
	// Pids is how many processes and threads a build's steps may have; 0 is no
	// limit.
	Pids int64
	// CPUs is how many processors' time a build's steps may use, e.g. 0.5; 0 is no
	// limit.
	CPUs float64
	Log  *slog.Logger
}

// Daemon is a BuildKit daemon that is kept running. Safe for concurrent use.
type Daemon struct {
	o       Options
	program string
	runtime string
	stop    context.CancelFunc
	done    chan struct{}
	limits  *groups

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
	program, err := find("buildkitd")
	if err != nil {
		return nil, errors.New("buildkitd is neither beside the program nor on PATH: run `make builder`, or set buildkit_addr")
	}
	runtime, err := find("buildkit-runc", "runc")
	if err != nil {
		return nil, errors.New("runc is neither beside the program nor on PATH: run `make builder`, or install it")
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the build daemon's folder cannot be made: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	d := &Daemon{
		o: o, program: program, runtime: runtime, stop: stop, done: make(chan struct{}),
		limits: newGroups(groupsDir, o),
	}
	if d.child, err = d.start(); err != nil {
		stop()
		return nil, fmt.Errorf("the build daemon cannot be started: %w", err)
	}
	go d.supervise(ctx, d.child)
	return d, nil
}

// find looks for a program beside this one, then on PATH.
func find(names ...string) (string, error) {
	self, _ := os.Executable()
	for _, n := range names {
		beside := filepath.Join(filepath.Dir(self), n)
		if info, err := os.Stat(beside); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return beside, nil
		}
		if path, err := exec.LookPath(n); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", os.ErrNotExist
}

// Close ends the daemon and everything it started, and waits for that.
func (d *Daemon) Close() {
	d.stop()
	<-d.done
}

// Address is where the daemon listens, or why there is none now.
func (d *Daemon) Address() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.child == nil {
		return "", d.problem
	}
	return "unix://" + d.socket(), nil
}

// Proxy is the address of the HTTP proxy inside the cage; "" while there is none.
func (d *Daemon) Proxy() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.child == nil {
		return ""
	}
	return d.child.proxy
}

// Limit makes a control group for a build: see builder.Local.
func (d *Daemon) Limit(scope string) (parent string, outOfMemory func() bool, release func()) {
	return d.limits.make(scope)
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
		select {
		case <-ctx.Done():
			c.kill()
			d.become(nil, errors.New("the build daemon was stopped"))
			return
		case <-c.ended:
		}
		d.become(nil, fmt.Errorf("the build daemon ended: %w", c.err))
		d.o.Log.Error("The build daemon ended; it is started again", "err", c.err)
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

func (d *Daemon) become(c *child, problem error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.child, d.problem = c, problem
}
