package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// The peers, by the packages that services/tools pins.
const (
	olaregPackage       = "github.com/olareg/olareg/cmd/olareg"
	distributionPackage = "github.com/distribution/distribution/v3/cmd/registry"
	buildctlPackage     = "github.com/moby/buildkit/cmd/buildctl"
)

// buildPeer makes the binary of a package of services/tools, and returns its path.
// Go's cache makes the second time short.
func (w *world) buildPeer(pkg string) string {
	tools := must(filepath.Abs(filepath.Join("services", "tools")))
	if _, err := os.Stat(filepath.Join(tools, "go.mod")); err != nil {
		fail("the bench runs in the repository's root: %w", err)
	}
	out := filepath.Join(w.bin, filepath.Base(pkg))
	build := exec.CommandContext(w.ctx, "go", "build", "-C", tools, "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	output(build)
	return out
}

// output runs a program that must succeed.
func output(cmd *exec.Cmd) []byte {
	said, err := cmd.CombinedOutput()
	if err != nil {
		fail("%v: %w\n%s", cmd.Args, err, said)
	}
	return said
}

// upstream is a registry (olareg) on disk.
func (w *world) upstream() *server {
	if w.up == nil {
		addr := freeAddr()
		host, port, _ := net.SplitHostPort(addr)
		w.up = w.keep(command{
			name: "upstream", path: w.buildPeer(olaregPackage), addr: addr, ready: answers("http://" + addr + "/v2/"),
			args: []string{"serve", "--addr", host, "--port", port, "--dir", filepath.Join(w.dir, "upstream"), "--gc-frequency", "-1s"},
		})
	}
	return w.up
}

// distribution is the peer: distribution's pull-through cache before the same
// upstream. It writes no access log, ours does.
func (w *world) distribution() *server {
	if w.peer == nil {
		addr := freeAddr()
		config := w.file("distribution.yml", fmt.Sprintf(distributionConfig, filepath.Join(w.dir, "distribution"), addr, w.upstream().addr))
		w.peer = w.keep(command{
			name: "distribution", path: w.buildPeer(distributionPackage), addr: addr, ready: answers("http://" + addr + "/v2/"),
			args: []string{"serve", config}, env: []string{"OTEL_TRACES_EXPORTER=none"},
		})
	}
	return w.peer
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

// redisSetting names Debian's redis-server; empty where it is not installed.
func (w *world) redisSetting() []string {
	if path, _ := exec.LookPath("redis-server"); !w.redisKnown && path != "" {
		addr := freeAddr()
		_, port, _ := net.SplitHostPort(addr)
		w.redis = w.keep(command{
			name: "redis", path: path, addr: addr, ready: listens("tcp", addr),
			args: []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", w.dir},
		})
	}
	w.redisKnown = true
	if w.redis == nil {
		return nil
	}
	return []string{"SLIPWAY_REDIS_URL=redis://" + w.redis.addr}
}

// remarkRedis is what figures say when the real Redis was missing.
func (w *world) remarkRedis() string {
	if w.redis == nil {
		return "embedded Redis: redis-server is not installed (apt-get install redis-server)"
	}
	return ""
}

// postgresPrograms is the folder of what Debian installs; "" is none.
func postgresPrograms() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// startPostgres makes a cluster with Debian's PostgreSQL, as it comes: what is
// committed is on disk. Its addr is a URL.
func (w *world) startPostgres() *server {
	bin, dir := postgresPrograms(), must(os.MkdirTemp("", "slipway-bench-pg-")) // nobody can reach it
	w.extra = append(w.extra, dir)
	var as *syscall.Credential
	if os.Getuid() == 0 {
		const nobody = 65534
		as = &syscall.Credential{Uid: nobody, Gid: nobody}
		check(os.Chown(dir, nobody, nobody))
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(w.ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "slipway", "-A", "trust")
	initdb.Dir, initdb.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
	output(initdb)
	addr := freeAddr()
	_, port, _ := net.SplitHostPort(addr)
	url := "postgres://slipway@" + addr + "/postgres?sslmode=disable"
	return w.start(command{
		name: "postgres", path: filepath.Join(bin, "postgres"), addr: url, as: as,
		args:  []string{"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="},
		ready: func(ctx context.Context) error { return w.migrate(ctx, url) },
	})
}

// migrate makes slipwayd's tables; the server may not be there yet.
func (w *world) migrate(ctx context.Context, url string) error {
	cmd := exec.CommandContext(ctx, w.slipwayd, "migrate", "--database-url", url)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return err
}
