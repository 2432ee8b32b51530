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

	"slipway.dev/services/internal/redact"
	"slipway.dev/services/internal/upstream"
)

// ServeOptions are the settings of a buildkitd that remote builders use.
type ServeOptions struct {
	// Root is the folder of its caches. Required.
	Root string
	// Run is the folder for sockets and other runtime files; its path must be short.
	// Required; it is created if missing.
	Run string
	// Addresses are the addresses that it listens on: unix://…, tcp://…. Required.
	Addresses []string
	// Args are additional flags of buildkitd.
	Args []string
	// More is the path of additional configuration; "" for none. See readMore.
	More string
	// Cache limits the disk space of its caches in bytes.
	Cache int64
	// Egress holds the rules for connections of buildkitd itself, and StepEgress those for
	// steps. Serve excludes the Addresses from both. Required.
	Egress, StepEgress *upstream.Egress
	// Plain lists registries ("host:port") that use plain HTTP. Steps do not reach those on
	// this machine.
	Plain []string
	// Mirrors are tried first for base images.
	Mirrors []upstream.Mirror
	// NoNewPrivileges disables setuid programs, such as sudo.
	NoNewPrivileges bool
	// Runtime is the path of the runc to use: see Options.
	Runtime string
	// Stderr receives buildkitd's own log.
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

// Serve runs a buildkitd as root of this machine or, preferably, of a user namespace, and
// serves the steps of its builds. When ctx ends, buildkitd is stopped after its running
// builds have finished. Serve returns when buildkitd has ended, with an error if ctx has
// not ended. buildkitd dies with this process.
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
	s.builds.remote = true
	go s.serve(h.steps)
	return h.run(ctx)
}

func (h *host) path(name string) string { return filepath.Join(h.o.Run, name) }

// ports returns the addresses that buildkitd listens on, as host:port.
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
	runtime.LockOSThread() // buildkitd dies with the thread that started it
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("buildkitd cannot be started: %w", err)
	}
	unwatch := context.AfterFunc(ctx, func() {
		h.o.Log.Info("Stopping buildkitd; builds that run are finished first")
		_ = cmd.Process.Signal(syscall.SIGTERM)
	})
	said := logOutput(io.TeeReader(out, redact.NewWriter(h.o.Stderr)), slog.New(slog.DiscardHandler)) // before Wait, which closes the pipe
	err = cmd.Wait()
	if !unwatch() {
		return nil
	}
	if err == nil {
		err = errors.New("it was not asked to stop")
	}
	return fmt.Errorf("buildkitd ended: %s", strings.TrimSpace(said+" ("+err.Error()+")"))
}

// command returns the command of buildkitd, and writes its configuration.
func (h *host) command(ctx context.Context) (*exec.Cmd, error) {
	more, err := readMore(h.o.More)
	if err != nil {
		return nil, err
	}
	own := canMountProc(ctx, h.programs.wrapper)
	if !own {
		h.o.Log.Info("Steps cannot mount their own /proc on this machine: they see all processes here, but can only access their own")
	}
	c := configuration{root: h.o.Root, addresses: h.o.Addresses, wrapper: h.programs.wrapper, plain: h.o.Plain, mirrors: h.o.Mirrors, served: &served{
		traces: h.path("otel.sock"), rootless: inUserNamespace(), sharePID: !own, cache: h.o.Cache, more: more,
	}}
	path := h.path("buildkitd.toml")
	if err := os.WriteFile(path, []byte(c.String()), 0o600); err != nil {
		return nil, fmt.Errorf("writing buildkitd's configuration: %w", err)
	}
	state := h.path("runc")
	if err := os.RemoveAll(state); err != nil { // the containers of an earlier daemon
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
		Setpgid:   true, // so that only this process receives a Ctrl-C
	}
	return cmd, nil
}
