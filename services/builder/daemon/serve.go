package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"slipway.dev/services/internal/upstream"
)

// ServeOptions are the settings of a buildkitd that builders elsewhere use.
type ServeOptions struct {
	// Root is where it keeps its caches. Required.
	Root string
	// Run is for sockets and what else ends with it; its path must be short.
	// Required; made when it is not there.
	Run string
	// Addresses are where it listens: unix://…, tcp://…. Required.
	Addresses []string
	// Args are more of buildkitd's own flags.
	Args []string
	// More is the path of more of its configuration; "" for none. See checkMore.
	More string
	// Cache is what its caches may take of the disk, in bytes.
	Cache int64
	// Egress are the rules for what buildkitd itself fetches and pushes, and StepEgress
	// those for steps. Neither reaches the Addresses. Required.
	Egress, StepEgress *upstream.Egress
	// Plain lists registries ("host:port") that are spoken to in plain http; those on
	// this machine no step reaches.
	Plain []string
	// Mirrors are asked first for the images that builds are made from.
	Mirrors []upstream.Mirror
	// NoNewPrivileges takes the effect from setuid programs, such as sudo.
	NoNewPrivileges bool
	// Runtime is the path of the runc to use: see Options.
	Runtime string
	// Stderr takes buildkitd's own log.
	Stderr io.Writer
	Log    *slog.Logger
}

// host is one run of Serve.
type host struct {
	o        ServeOptions
	programs programs
	steps    *net.UnixListener
	proxy    net.Listener
}

// Serve runs a buildkitd as root of this machine or, better, of a user namespace,
// and serves the steps of its builds. When ctx ends buildkitd is told to stop: the
// builds that run are finished first. It returns when buildkitd has ended, with an
// error if it was not asked to. buildkitd dies with this process.
func Serve(ctx context.Context, o ServeOptions) error {
	if os.Geteuid() != 0 {
		return errors.New("it must be root, of a user namespace at least: start it with rootlesskit")
	}
	if err := checkArgs(o.Args); err != nil {
		return err
	}
	p, err := findPrograms(o.Runtime)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Run, 0o700); err != nil {
		return fmt.Errorf("the folder for sockets cannot be made: %w", err)
	}
	h := &host{o: o, programs: p}
	if h.steps, err = listenSteps(h.path("steps.sock")); err != nil {
		return err
	}
	defer func() { _ = h.steps.Close() }()
	if h.proxy, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	defer func() { _ = h.proxy.Close() }()
	own := append(h.ports(), h.proxy.Addr().String())
	go func() { _ = proxyServer(newProxy(o.Egress.Except(own).DialContext)).Serve(h.proxy) }()
	s := newSteps(o.StepEgress.Except(append(own, o.Plain...)).DialContext, o.Log)
	s.builds.guests = true
	go s.serve(h.steps)
	return h.run(ctx)
}

func (h *host) path(name string) string { return filepath.Join(h.o.Run, name) }

// ports are the addresses that buildkitd listens at, host:port.
func (h *host) ports() (out []string) {
	for _, a := range h.o.Addresses {
		if at, ok := strings.CutPrefix(a, "tcp://"); ok {
			out = append(out, at)
		}
	}
	return out
}

// run runs buildkitd until it ends.
func (h *host) run(ctx context.Context) error {
	cmd, err := h.command(ctx)
	if err != nil {
		return err
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // it dies with the thread that started it
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("buildkitd cannot be started: %w", err)
	}
	unwatch := context.AfterFunc(ctx, func() {
		h.o.Log.Info("Stopping buildkitd; builds that run are finished first")
		_ = cmd.Process.Signal(syscall.SIGTERM)
	})
	said := logOutput(io.TeeReader(out, h.o.Stderr), slog.New(slog.DiscardHandler)) // before Wait, which closes what it reads
	err = cmd.Wait()
	if !unwatch() {
		return nil
	}
	if err == nil {
		err = errors.New("nobody told it to")
	}
	return fmt.Errorf("buildkitd ended: %s", strings.TrimSpace(said+" ("+err.Error()+")"))
}

// command is buildkitd, with its configuration written.
func (h *host) command(ctx context.Context) (*exec.Cmd, error) {
	more, err := readMore(h.o.More)
	if err != nil {
		return nil, err
	}
	own := canMountProc(ctx, h.programs.wrapper)
	if !own {
		h.o.Log.Info("This machine lets steps mount no /proc of their own: they see one of all processes here, and reach none but their own")
	}
	c := configuration{root: h.o.Root, addresses: h.o.Addresses, wrapper: h.programs.wrapper, plain: h.o.Plain, mirrors: h.o.Mirrors, served: &served{
		traces: h.path("otel.sock"), rootless: inUserNamespace(), sharePID: !own, cache: h.o.Cache, more: more,
	}}
	path := h.path("buildkitd.toml")
	if err := os.WriteFile(path, []byte(c.String()), 0o600); err != nil {
		return nil, fmt.Errorf("writing buildkitd's configuration: %w", err)
	}
	state := h.path("runc")
	if err := os.RemoveAll(state); err != nil { // the containers of a daemon that is gone
		return nil, err
	}
	h.o.Log.Info("buildkitd runs steps with runc", "path", h.programs.runtime, "version", h.programs.version, "rootless", c.served.rootless, "own_proc", own)
	cmd := exec.CommandContext(context.Background(), h.programs.daemon, append([]string{"--config", path}, h.o.Args...)...)
	cmd.Env = append(environment{
		proxy: "http://" + h.proxy.Addr().String(), steps: h.path("steps.sock"), runtime: h.programs.runtime, state: state, noNewPrivileges: h.o.NoNewPrivileges,
	}.all(), "XDG_RUNTIME_DIR="+h.o.Run)
	cmd.Stdout = h.o.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // a Ctrl-C is for us alone
	}
	return cmd, nil
}
