// Package embedded runs inside this process what a larger installation runs
// beside it: NATS and Redis. They speak the same protocols as the real ones,
// over memory instead of a wire, and open no port.
package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// Redis is an in-memory Redis: what it holds is gone when the process ends.
type Redis struct {
	mini *miniredis.Miniredis
	stop chan struct{}
	done chan struct{}
}

// StartRedis starts one. The caller closes it.
func StartRedis() *Redis {
	r := &Redis{mini: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{})}
	go r.expire()
	return r
}

// expire drives the keys' lives once a second: the server itself would look at
// every key on every command.
func (r *Redis) expire() {
	defer close(r.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-r.stop:
			return
		case now := <-tick.C:
			r.mini.FastForward(now.Sub(last))
			last = now
		}
	}
}

// Dial opens a connection.
func (r *Redis) Dial() (net.Conn, error) { return r.mini.Dial() }

// Close stops it; what it held is lost.
func (r *Redis) Close() {
	close(r.stop)
	<-r.done
	r.mini.Close()
}

// StartNATS starts a NATS server with JetStream under dir, in its folder
// `nats`. The caller shuts it down.
func StartNATS(dir string) (*server.Server, error) {
	// What the server makes in there others could read.
	store := filepath.Join(dir, "nats")
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, fmt.Errorf("setting up the embedded NATS: %w", err)
	}
	if err := os.Chmod(store, 0o700); err != nil && !errors.Is(err, fs.ErrPermission) { //nolint:gosec // a folder is entered
		return nil, fmt.Errorf("setting up the embedded NATS: %w", err)
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "embedded",
		DontListen: true,
		JetStream:  true,
		StoreDir:   store,
		NoSigs:     true,
		NoLog:      true,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the embedded NATS: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the embedded NATS did not start within 10 s")
	}
	return s, nil
}
