// Package embedded runs NATS and Redis inside this process, for installations without
// separate servers. Clients use the same protocols over in-memory connections. No port is
// opened.
package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// A Redis is an in-memory Redis server. Its data is lost when the process exits.
type Redis struct {
	mini *miniredis.Miniredis
	stop chan struct{}
	done chan struct{}
}

// StartRedis starts a server. The caller must close it.
func StartRedis() *Redis {
	r := &Redis{mini: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{})}
	go r.expire()
	return r
}

// expire advances the server's clock once a second, so that keys expire. The alternative, to
// check all keys at each command, would be slow.
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

// Dial opens a connection to the server.
func (r *Redis) Dial() (net.Conn, error) { return r.mini.Dial() }

// Close stops the server and discards its data.
func (r *Redis) Close() {
	close(r.stop)
	<-r.done
	r.mini.Close()
}

// StartNATS starts a NATS server with JetStream, which stores its data in the folder "nats"
// in dir. If the disk is full, streams reject messages until there is space again. The caller
// must shut the server down.
func StartNATS(dir string, log *slog.Logger) (*server.Server, error) {
	// The server creates files that other users can read, so the folder must be private.
	store := filepath.Join(dir, "nats")
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, fmt.Errorf("setting up the embedded NATS: %w", err)
	}
	if err := os.Chmod(store, 0o700); err != nil && !errors.Is(err, fs.ErrPermission) { //nolint:gosec // a folder needs the x bit
		return nil, fmt.Errorf("setting up the embedded NATS: %w", err)
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "embedded",
		DontListen: true,
		JetStream:  true,
		StoreDir:   store,
		// By default the limit depends on the free space at the start, and streams that
		// reserve more could not be created.
		JetStreamMaxStore: maxStore,
		NoSigs:            true,
		NoLog:             true,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the embedded NATS: %w", err)
	}
	failures := &writeFailures{happened: make(chan struct{}, 1)}
	s.SetLogger(failures, false, false)
	s.Start()
	go reopen(s, store, failures.happened, log)
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the embedded NATS did not start within 10 s")
	}
	return s, nil
}
