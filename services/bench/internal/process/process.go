// Package process starts real servers, stops all of them, and measures their resource
// usage.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"slipway.dev/services/bench/internal/must"
)

// A Command describes how a server is started.
type Command struct {
	// Name is used in messages and as the log's file name.
	Name string
	Path string
	Args []string
	// Env is added to a minimal environment.
	Env []string
	// Addr is the address that the server listens on (host:port). Admin is its private
	// address, if any.
	Addr, Admin string
	// As is the user that the server runs as; nil is the current user.
	As *syscall.Credential
	// Data is its data folder, if any.
	Data string
	// Ready returns nil when the server is ready.
	Ready func(context.Context) error
}

// A Server is a running process that Fleet.Start started.
type Server struct {
	Command
	cmd *exec.Cmd
	// ended is closed when the process has ended.
	ended chan struct{}
	// Took is the time from exec until it was ready.
	Took time.Duration
}

func (s *Server) URL(path string) string { return "http://" + s.Addr + path }

// Join moves the server into a control group, which is a folder of the kernel.
func (s *Server) Join(group string) { must.Do(Join(s.cmd.Process.Pid, group)) }

// Join moves a process into a control group.
func Join(pid int, group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// A Fleet is a set of running processes, which StopAll ends.
type Fleet struct {
	// Logs is the folder for the logs of the servers.
	Logs    string
	running []*Server
}

// timeout limits the start of a server. A shutdown may take a sixth of it.
const timeout = 30 * time.Second

// Start runs a server and waits until it is ready.
func (f *Fleet) Start(ctx context.Context, c Command) (*Server, error) {
	log, err := os.CreateTemp(f.Logs, c.Name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &Server{Command: c, cmd: exec.Command(c.Path, c.Args...), ended: make(chan struct{})}
	s.cmd.Dir = f.Logs
	if c.As != nil {
		s.cmd.Dir = "/"
	}
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.Logs}, c.Env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// It has its own process group, so that Ctrl-C only reaches the bench, which stops all
	// servers in order.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: c.As}
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	f.running = append(f.running, s)
	go func() {
		_ = s.cmd.Wait() // the log explains how it ended
		close(s.ended)
	}()
	if err := s.wait(ctx); err != nil {
		return nil, fmt.Errorf("starting %s: %w (its log ends with: %s)", c.Name, err, tail(log.Name()))
	}
	s.Took = time.Since(begin)
	return s, nil
}

func (s *Server) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", err)
		case <-tick.C:
		}
	}
}

// Stop ends a server and waits for its end.
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-s.ended:
	case <-time.After(timeout / 6):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// StopAll ends the running servers, last started first.
func (f *Fleet) StopAll() {
	for i := len(f.running) - 1; i >= 0; i-- {
		f.running[i].Stop()
	}
	f.running = nil
}

// tail returns the end of a log.
func tail(path string) string {
	raw, _ := os.ReadFile(filepath.Clean(path)) // a missing log is empty
	return string(raw[max(0, len(raw)-500):])
}

// FreeAddr returns an address on loopback that was just free.
func FreeAddr() string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	must.Do(l.Close())
	return l.Addr().String()
}

// Listens returns a Ready function, which returns nil if an address accepts connections.
func Listens(network, addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = c.Close()
		}
		return err
	}
}

// RespondsAt returns a Ready function, which returns nil if a URL responds with status 200.
func RespondsAt(url string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
}
