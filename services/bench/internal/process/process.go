// Package process starts real servers, leaves none behind, and reads from the kernel
// what they use.
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
	"syscall"
	"time"

	"slipway.dev/services/bench/internal/must"
)

// Command says how a server is started.
type Command struct {
	// Name is for messages and for the log's file name.
	Name string
	Path string
	Args []string
	// Env is added to a bare environment.
	Env []string
	// Addr is where it will listen (host:port); admin its private port, if any.
	Addr, Admin string
	// As is the user that it runs as; nil is the bench's own.
	As *syscall.Credential
	// Data is its folder, if it has one.
	Data string
	// Ready returns nil when it may be used.
	Ready func(context.Context) error
}

// Server is a process of the bench; Fleet.Start makes it.
type Server struct {
	Command
	cmd *exec.Cmd
	// ended is closed when the process is gone.
	ended chan struct{}
	// Took is the time from exec until it was ready.
	Took time.Duration
}

func (s *Server) URL(path string) string { return "http://" + s.Addr + path }

// Fleet is processes that run; StopAll leaves none.
type Fleet struct {
	// Logs is the folder for what the servers say.
	Logs    string
	running []*Server
}

// patience is how long a server may take to be ready, and to stop by itself.
const patience = 30 * time.Second

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
	// Its own group: Ctrl-C reaches the bench alone, which stops everything in order.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: c.As}
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	f.running = append(f.running, s)
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.ended)
	}()
	if err := s.wait(ctx); err != nil {
		return nil, fmt.Errorf("starting %s: %w (it said: %s)", c.Name, err, tail(log.Name()))
	}
	s.Took = time.Since(begin)
	return s, nil
}

func (s *Server) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// Stop ends a server and waits for that.
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-s.ended:
	case <-time.After(patience / 6):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// StopAll ends what still runs, last first.
func (f *Fleet) StopAll() {
	for i := len(f.running) - 1; i >= 0; i-- {
		f.running[i].Stop()
	}
	f.running = nil
}

// tail is the end of a log.
func tail(path string) string {
	raw, _ := os.ReadFile(filepath.Clean(path)) // no log is an empty one
	return string(raw[max(0, len(raw)-500):])
}

// FreeAddr is an address on loopback that was free a moment ago.
func FreeAddr() string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	must.Do(l.Close())
	return l.Addr().String()
}

// Listens waits for somebody to accept connections.
func Listens(network, addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = c.Close()
		}
		return err
	}
}

// Answers waits for a 200 at a URL.
func Answers(url string) func(context.Context) error {
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
