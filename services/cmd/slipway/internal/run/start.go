package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/mount/agent"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/fuse"
	"slipway.dev/services/mount/kernel"
	"slipway.dev/services/mount/sandbox"
)

// A launch runs a command in an environment.
type launch struct {
	cache *cache.Cache
	name  cache.Name
	// manifest and config describe the environment, which is mounted at prefix.
	manifest, config []byte
	prefix           string
	image            []string      // the variables that the image sets
	described        ocispec.Image // the config of the image; zero for a Singularity image
	singularity      bool
	// whole is set if the command gets the root of the image, which is unpacked in the folder root and needs no environment. Layout is what the command
	// sees.
	whole     bool
	root      string
	layout    *layout
	processes bool // whether the command has a namespace of processes
	connection
	offline bool
	share   bool // whether commands share a mount
	idle    time.Duration
	stats   bool
	// pushTrace is set if the record of trace is pushed.
	pushTrace bool
	trace     bool // whether what the command reads first is recorded; it has a mount of its own then
	stderr    io.Writer
	began     time.Time
}

// memoryLimit is the size of the heap, in bytes, from which on a process that serves files collects garbage all the time.
const memoryLimit = 14 << 20

// collectAfter is how much more than what is in use a process that serves files allocates before it collects garbage, in percent, until
// it reaches memoryLimit.
const collectAfter = 200

// run runs a command and returns its exit code. The mount is, in this order: EROFS of the kernel for root, if the environment is
// complete; that of an agent; one of this process.
func (l *launch) run(ctx context.Context, args, env []string) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	c := sandbox.Command{Prefix: l.prefix, Args: args, Env: env, Dir: dir, Processes: l.processes}
	if l.layout != nil {
		c.Root, c.Dir = l.layout.root, l.layout.dir
	}
	if l.prefix == "" {
		return l.alone(c)
	}
	if os.Getuid() == 0 && !l.trace {
		tree, err := l.kernelMount(ctx)
		if err != nil {
			return 1, err
		}
		if tree != nil {
			return l.attach(c, tree, nil)
		}
	}
	if l.share && !l.trace {
		client, err := l.agent()
		if err == nil {
			defer func() { _ = client.Close() }()
			return l.attach(c, client.Tree, client)
		}
		if errors.Is(err, sandbox.ErrNamespace) {
			return 1, sandbox.Advise(err)
		}
		fmt.Fprintln(l.stderr, "slipway: the mount is not shared with other commands:", err)
	}
	return l.own(ctx, c)
}

// alone runs a command without an environment.
func (l *launch) alone(c sandbox.Command) (int, error) {
	p, err := sandbox.Start(c, nil)
	if err != nil {
		return 1, sandbox.Advise(err)
	}
	if l.stats {
		fmt.Fprintf(l.stderr, "slipway: no mount, command started after %v\n", time.Since(l.began).Round(100*time.Microsecond))
	}
	return p.Wait()
}

// kernelMount returns a mount of EROFS; nil if the environment is not complete or the kernel cannot mount it.
func (l *launch) kernelMount(ctx context.Context) (*os.File, error) {
	if kernel.Available() != nil {
		return nil, nil //nolint:nilnil // no mount
	}
	e, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	defer e.files.Close()
	devices, ok := e.files.Complete()
	if !ok || e.path == "" {
		return nil, nil //nolint:nilnil // no mount
	}
	tree, err := kernel.Mount(e.path, devices)
	if err != nil {
		fmt.Fprintln(l.stderr, "slipway: FUSE is used:", err)
		return nil, nil //nolint:nilnil // no mount
	}
	return tree, nil
}

// open opens the environment.
func (l *launch) open(ctx context.Context) (*opened, error) {
	if l.offline {
		return open(ctx, l.cache, nil, l.manifest, l.config)
	}
	return open(ctx, l.cache, newSources(l.name.Image, l.connection), l.manifest, l.config)
}

// attach runs a command with a mount, and closes it.
func (l *launch) attach(c sandbox.Command, tree *os.File, client *agent.Client) (int, error) {
	var before agent.Status
	kind := "kernel"
	if client != nil {
		kind = "shared"
		var err error
		if before, err = client.Status(); err != nil {
			fmt.Fprintln(l.stderr, "slipway: errors of reads are not reported:", err)
			client = nil
		}
	}
	p, err := sandbox.Start(c, tree)
	if err = errors.Join(err, tree.Close()); err != nil {
		return 1, sandbox.Advise(err)
	}
	started := time.Since(l.began)
	code, err := p.Wait()
	if err != nil {
		return 1, err
	}
	if client == nil {
		if l.stats {
			fmt.Fprintf(l.stderr, "slipway: %s mount, command started after %v\n", kind, started.Round(100*time.Microsecond))
		}
		return code, nil
	}
	after, err := client.Status()
	if err != nil { // the command has ended with its own exit code
		fmt.Fprintln(l.stderr, "slipway: the process that serves the environment has ended:", err)
		return code, nil
	}
	printErrors(l.stderr, after.Errors[min(len(before.Errors), len(after.Errors)):])
	if l.stats {
		for name, n := range before.Messages {
			after.Messages[name] -= n
		}
		after.Requests, after.Bytes, after.Rejected = after.Requests-before.Requests, after.Bytes-before.Bytes, after.Rejected-before.Rejected
		printStats(l.stderr, after, started, kind)
	}
	return code, nil
}

// own runs a command with a mount that this process serves.
func (l *launch) own(ctx context.Context, c sandbox.Command) (int, error) {
	p, err := sandbox.Start(c, nil) // before anything is served: see package fuse
	if err != nil {
		return 1, sandbox.Advise(err)
	}
	e, err := l.open(context.WithoutCancel(ctx)) // an interrupt is for the command
	if err != nil {
		p.Kill()
		return 1, err
	}
	defer e.files.Close()
	fd, err := p.Connection()
	if err != nil {
		code, waitErr := p.Wait() // the process has printed why
		return max(code, 1), waitErr
	}
	limitMemory()
	if l.trace {
		e.files.Record()
	}
	s := newServed(fd, e)
	e.files.FetchFirsts(e.cache.Firsts(e.digest))
	started := time.Since(l.began)
	code, err := p.Wait()
	if l.trace {
		l.record(e)
	}
	if l.pushTrace {
		err = errors.Join(err, l.pushFirsts(context.WithoutCancel(ctx), e.digest))
	}
	printErrors(l.stderr, s.Errors())
	if l.stats {
		printStats(l.stderr, s.status(), started, "own")
	}
	if problem := l.cache.Problem(); problem != nil && l.stats {
		fmt.Fprintln(l.stderr, "slipway:", problem)
	}
	return code, err
}

// record adds what the command read first to the list of the environment.
func (l *launch) record(e *opened) {
	list := e.files.Recorded()
	added := l.cache.AddFirsts(e.digest, list)
	fmt.Fprintf(l.stderr, "slipway: the command read %d chunks of 256 KiB, of which %d were not recorded before; the record is in %s\n", len(list), added, l.cache.Dir())
	if err := l.cache.Problem(); err != nil {
		fmt.Fprintln(l.stderr, "slipway:", err)
	}
}

// limitMemory keeps the memory of a process that serves files small, most of which is garbage.
func limitMemory() {
	debug.SetGCPercent(collectAfter)
	debug.SetMemoryLimit(memoryLimit)
}

// served is an environment that this process serves.
type served struct {
	server *fuse.Server
	files  *cache.Environment
	done   chan struct{}

	mu     sync.Mutex
	errors []string
}

// newServed serves the connection of a mount.
func newServed(fd int, e *opened) *served {
	s := &served{files: e.files, done: make(chan struct{})}
	s.server = fuse.NewServer(fd, e.index, e.files, fuse.Options{UID: os.Getuid(), GID: os.Getgid(), Failed: s.failed})
	go func() {
		defer close(s.done)
		_ = s.server.Serve() // the file system is unmounted
	}()
	return s
}

// maxErrors is the maximum number of different errors that are reported.
const maxErrors = 20

func (s *served) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := err.Error(); len(s.errors) < maxErrors && !slices.Contains(s.errors, text) {
		s.errors = append(s.errors, text)
	}
}

// Errors returns the errors of reads so far.
func (s *served) Errors() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.errors)
}

func (s *served) status() agent.Status {
	return agent.Status{
		Messages: s.server.Messages(), Requests: s.files.Stats.Requests.Load(), Bytes: s.files.Stats.Bytes.Load(), Rejected: s.files.Stats.Rejected.Load(),
		Memory: peakMemory(), Errors: s.Errors(),
	}
}

// peakMemory returns the maximum resident size of this process in bytes; 0 if it is unknown.
func peakMemory() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}

func printErrors(w io.Writer, all []string) {
	for _, e := range all {
		fmt.Fprintln(w, "slipway:", e)
	}
}

// printStats prints what a command cost.
func printStats(w io.Writer, s agent.Status, started time.Duration, kind string) {
	var counts []string
	for name, n := range s.Messages {
		if n != 0 {
			counts = append(counts, fmt.Sprintf("%s %d", name, n))
		}
	}
	slices.Sort(counts)
	fmt.Fprintf(w, "slipway: %s mount, command started after %v; messages: %s; fetched %d bytes in %d requests, rejected %d chunks; memory %d KiB\n",
		kind, started.Round(100*time.Microsecond), strings.Join(counts, ", "), s.Bytes, s.Requests, s.Rejected, s.Memory>>10)
}
