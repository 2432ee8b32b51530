package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that are sent on to the command. SIGHUP is not if it is ignored, as with nohup.
//
//nolint:gochecknoglobals // an immutable value
var passedOn = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}

// listen starts to receive signals for the command, which are sent on when Wait is called.
func (p *Process) listen() {
	p.signals = make(chan os.Signal, 16)
	signal.Notify(p.signals, passedOn...)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(p.signals, syscall.SIGHUP)
	}
}

// pass sends a signal on to the command.
func (p *Process) pass(s os.Signal) {
	if (s == syscall.SIGINT || s == syscall.SIGQUIT) && isForeground() {
		return // the terminal sends it to both processes
	}
	_ = p.process.Signal(s) // it has ended otherwise
}

// isForeground reports whether the terminal sends signals to the group of this process.
func isForeground() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// Wait waits for the command and returns its exit code: 128 and the number of the signal if a signal ended it. Meanwhile, and for the
// time since Start, it sends signals on. It prints why a command could not be started.
func (p *Process) Wait() (int, error) {
	defer signal.Stop(p.signals)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s := <-p.signals:
				p.pass(s)
			case <-done:
				return
			}
		}
	}()
	state, err := p.process.Wait()
	if code, ok := p.report(); ok {
		return code, nil
	}
	if err != nil {
		return 1, fmt.Errorf("waiting for the command: %w", err)
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return state.ExitCode(), nil
}

// lookPath finds a program in the PATH of an environment.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(valueOf(env, "PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// valueOf returns the last value of a variable.
func valueOf(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}
