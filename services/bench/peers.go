package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// distribution is the peer: distribution's pull-through cache before the same
// upstream. It writes no access log, ours does.
func (w *world) distribution(ctx context.Context) (*server, error) {
	if w.peer != nil {
		return w.peer, nil
	}
	up, err := w.upstream(ctx)
	if err != nil {
		return nil, err
	}
	path, err := buildPeer(ctx, w.bin, distributionPackage)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(w.dir, "distribution.yml")
	text := fmt.Sprintf(distributionConfig, filepath.Join(w.dir, "distribution"), addr, up.addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	w.peer, err = w.fleet.start(ctx, command{
		name: "distribution", path: path, addr: addr, ready: answers("http://" + addr + "/v2/"),
		args: []string{"serve", config}, env: []string{"OTEL_TRACES_EXPORTER=none"},
	})
	return w.peer, err
}

const distributionConfig = `version: 0.1
log:
  level: error
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: %s
  cache:
    blobdescriptor: inmemory
http:
  addr: %s
proxy:
  remoteurl: http://%s
  ttl: 168h
`

// realRedis is Debian's redis-server; nil when it is not installed.
func (w *world) realRedis(ctx context.Context) (*server, error) {
	if w.redisKnown {
		return w.redis, nil
	}
	path, _ := exec.LookPath("redis-server")
	if path == "" {
		fmt.Fprintln(os.Stderr, "bench: redis-server is not installed (apt-get install redis-server); taking the embedded one")
		w.redisKnown = true
		return nil, nil
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	w.redis, err = w.fleet.start(ctx, command{
		name: "redis", path: path, addr: addr,
		args:  []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", w.dir},
		ready: func(ctx context.Context) error { return pong(ctx, addr) },
	})
	w.redisKnown = err == nil
	return w.redis, err
}

func pong(ctx context.Context, addr string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	answer := make([]byte, 5)
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "+PONG" {
		return errors.Join(err, fmt.Errorf("redis answered %q", answer))
	}
	return nil
}
