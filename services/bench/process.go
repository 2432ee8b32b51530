package main

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
)

// command says how a server is started.
type command struct {
	// name is for messages and for the log's file name.
	name string
	path string
	args []string
	// env is added to a bare environment.
	env []string
	// addr is where it will listen (host:port); admin its private port, if any.
	addr, admin string
	// as is the user that it runs as; nil is the bench's own.
	as *syscall.Credential
	// data is its folder, if it has one.
	data string
	// ready returns nil when it may be used.
	ready func(context.Context) error
}

// server is a process of the bench; fleet.start makes it.
type server struct {
	command
	cmd *exec.Cmd
	// ended is closed when the process is gone.
	ended chan struct{}
	// took is the time from exec until it was ready.
	took time.Duration
}

func (s *server) url(path string) string { return "http://" + s.addr + path }

// fleet is processes that run; stopAll leaves none.
type fleet struct {
	// logs is the folder for what the servers say.
	logs    string
	running []*server
}

// patience is how long a server may take to be ready, and to stop by itself.
const patience = 30 * time.Second

// start runs a server and waits until it is ready.
func (f *fleet) start(ctx context.Context, c command) (*server, error) {
	log, err := os.CreateTemp(f.logs, c.name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &server{command: c, cmd: exec.Command(c.path, c.args...), ended: make(chan struct{})}
	s.cmd.Dir = f.logs
	if c.as != nil {
		s.cmd.Dir = "/"
	}
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.logs}, c.env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// Its own group: Ctrl-C reaches the bench alone, which stops everything in order.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: c.as}
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	f.running = append(f.running, s)
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.ended)
	}()
	if err := s.wait(ctx); err != nil {
		return nil, fmt.Errorf("starting %s: %w (it said: %s)", c.name, err, tail(log.Name()))
	}
	s.took = time.Since(begin)
	return s, nil
}

func (s *server) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ready(ctx)
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

// stop ends a server and waits for that.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-s.ended:
	case <-time.After(patience / 6):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// stopAll ends what still runs, last first.
func (f *fleet) stopAll() {
	for i := len(f.running) - 1; i >= 0; i-- {
		f.running[i].stop()
	}
	f.running = nil
}

// tail is the end of a log.
func tail(path string) string {
	raw, _ := os.ReadFile(filepath.Clean(path)) // no log is an empty one
	return string(raw[max(0, len(raw)-500):])
}

// freeAddr is an address on loopback that was free a moment ago.
func freeAddr() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	check(l.Close())
	return l.Addr().String()
}

// listens waits for somebody to accept connections.
func listens(network, addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = c.Close()
		}
		return err
	}
}

// answers waits for a 200 at a URL.
func answers(url string) func(context.Context) error {
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
