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
	"strings"
)

// world is what the sections share: servers that start when the first section
// needs them, and the images at the upstream registry.
type world struct {
	settings
	dir   string
	fleet fleet

	up, peer, shared *server
	redis            *server // nil when redis-server is not installed
	redisKnown       bool
	pushed           map[string]bool
}

func newWorld(s settings) (*world, error) {
	dir, err := os.MkdirTemp("", "slipway-bench-")
	if err != nil {
		return nil, err
	}
	return &world{settings: s, dir: dir, fleet: fleet{logs: dir}, pushed: map[string]bool{}}, nil
}

// close ends every process and removes every file.
func (w *world) close() error {
	w.fleet.stopAll()
	return os.RemoveAll(w.dir)
}

// upstream is a registry (olareg) on disk.
func (w *world) upstream(ctx context.Context) (*server, error) {
	if w.up != nil {
		return w.up, nil
	}
	path, err := buildPeer(ctx, w.bin, olaregPackage)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	w.up, err = w.fleet.start(ctx, command{
		name: "upstream", path: path, addr: addr, ready: answers("http://" + addr + "/v2/"),
		args: []string{"serve", "--addr", host, "--port", port, "--dir", filepath.Join(w.dir, "upstream"), "--gc-frequency", "-1s"},
	})
	return w.up, err
}

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
	path, err := exec.LookPath("redis-server")
	if err != nil {
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

// slipway is the server that several sections share: all roles in one process, on
// a real Redis where there is one, with limits on.
func (w *world) slipway(ctx context.Context) (*server, error) {
	if w.shared != nil {
		return w.shared, nil
	}
	env, err := w.redisSetting(ctx)
	if err != nil {
		return nil, err
	}
	w.shared, err = w.startSlipway(ctx, env...)
	return w.shared, err
}

// redisSetting names the real Redis; empty when there is none.
func (w *world) redisSetting(ctx context.Context) ([]string, error) {
	r, err := w.realRedis(ctx)
	if r == nil || err != nil {
		return nil, err
	}
	return []string{"SLIPWAY_REDIS_URL=redis://" + r.addr}, nil
}

// startSlipway starts slipwayd with a data folder of its own. Limits are so high
// that they are counted but never reached.
func (w *world) startSlipway(ctx context.Context, env ...string) (*server, error) {
	data, err := os.MkdirTemp(w.dir, "slipway-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	insecure := ""
	if w.up != nil {
		insecure = w.up.addr
	}
	return w.fleet.start(ctx, command{
		name: "slipwayd", path: w.slipwayd, args: []string{"serve"}, addr: addr, admin: admin,
		ready: answers("http://" + admin + "/readyz"),
		env: append([]string{
			"SLIPWAY_HTTP_ADDR=" + addr, "SLIPWAY_ADMIN_ADDR=" + admin, "SLIPWAY_PUBLIC_URL=http://" + addr,
			"SLIPWAY_DATA_DIR=" + data, "SLIPWAY_EGRESS_ALLOW=127.0.0.0/8", "SLIPWAY_INSECURE_REGISTRIES=" + insecure,
			"SLIPWAY_LIMIT_PULLS_ANONYMOUS=1000000000/1h", "SLIPWAY_LIMIT_PULLS_USER=1000000000/1h",
		}, env...),
	})
}

// remarkRedis is what figures say when the real Redis was missing.
func (w *world) remarkRedis() string {
	if w.redis == nil {
		return "embedded Redis: redis-server is not installed"
	}
	return ""
}

// split takes a pull name apart: host, path below /v2/, tag or digest.
func split(name string) (host, repository, ref string) {
	host, rest, _ := strings.Cut(name, "/")
	if repository, ref, ok := strings.Cut(rest, "@"); ok {
		return host, repository, ref
	}
	i := strings.LastIndexByte(rest, ':')
	return host, rest[:i], rest[i+1:]
}
