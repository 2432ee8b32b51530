package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
