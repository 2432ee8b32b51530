package world

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
)

// The peers, by the packages that services/tools pins.
const (
	olaregPackage       = "github.com/olareg/olareg/cmd/olareg"
	distributionPackage = "github.com/distribution/distribution/v3/cmd/registry"
	buildctlPackage     = "github.com/moby/buildkit/cmd/buildctl"
)

// buildPeer builds a package of services/tools and returns the path of the binary. Go
// caches the result.
func (w *World) buildPeer(pkg string) string {
	tools := must.Get(filepath.Abs(filepath.Join("services", "tools")))
	if _, err := os.Stat(filepath.Join(tools, "go.mod")); err != nil {
		must.Fail("the bench runs in the repository's root: %w", err)
	}
	out := filepath.Join(w.Bin, filepath.Base(pkg))
	build := exec.CommandContext(w.Ctx, "go", "build", "-C", tools, "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	Output(build)
	return out
}

// Output runs a program that must succeed and returns its output.
func Output(cmd *exec.Cmd) []byte {
	said, err := cmd.CombinedOutput()
	if err != nil {
		must.Fail("%v: %w\n%s", cmd.Args, err, said)
	}
	return said
}

// upstream starts a registry (olareg) on disk.
func (w *World) upstream() *process.Server {
	if w.Up == nil {
		addr := process.FreeAddr()
		host, port, _ := net.SplitHostPort(addr)
		w.Up = w.keep(process.Command{
			Name: "upstream", Path: w.buildPeer(olaregPackage), Addr: addr, Ready: process.RespondsAt("http://" + addr + "/v2/"),
			Args: []string{"serve", "--addr", host, "--port", port, "--dir", filepath.Join(w.Dir, "upstream"), "--gc-frequency", "-1s"},
		})
	}
	return w.Up
}

// distribution starts a peer: the pull-through cache of distribution with the same
// upstream. Unlike slipwayd it writes no access log.
func (w *World) distribution() *process.Server {
	if w.peer == nil {
		addr := process.FreeAddr()
		config := w.File("distribution.yml", fmt.Sprintf(distributionConfig, filepath.Join(w.Dir, "distribution"), addr, w.upstream().Addr))
		w.peer = w.keep(process.Command{
			Name: "distribution", Path: w.buildPeer(distributionPackage), Addr: addr, Ready: process.RespondsAt("http://" + addr + "/v2/"),
			Args: []string{"serve", config}, Env: []string{"OTEL_TRACES_EXPORTER=none"},
		})
	}
	return w.peer
}

// StartTarget starts an empty registry (distribution) on disk, in its data folder, which ends with the section.
func (w *World) StartTarget() *process.Server {
	addr := process.FreeAddr()
	dir := must.Get(os.MkdirTemp(w.Dir, "target-"))
	config := w.File(filepath.Base(dir)+".yml", fmt.Sprintf(targetConfig, dir, addr))
	return w.Start(process.Command{
		Name: "target", Data: dir, Path: w.buildPeer(distributionPackage), Addr: addr, Ready: process.RespondsAt("http://" + addr + "/v2/"),
		Args: []string{"serve", config}, Env: []string{"OTEL_TRACES_EXPORTER=none"},
	})
}

// zot starts a peer if it is on PATH: zot's on-demand synchronisation with the same
// upstream. It returns nil otherwise.
func (w *World) zot() *process.Server {
	path, err := exec.LookPath("zot")
	if err != nil {
		return nil
	}
	if w.other == nil {
		addr := process.FreeAddr()
		host, port, _ := net.SplitHostPort(addr)
		config := w.File("zot.json", fmt.Sprintf(zotConfig, filepath.Join(w.Dir, "zot"), host, port, w.upstream().Addr))
		w.other = w.keep(process.Command{
			Name: "zot", Path: path, Addr: addr, Ready: process.RespondsAt("http://" + addr + "/v2/"), Args: []string{"serve", config},
		})
	}
	return w.other
}

const zotConfig = `{
	"distSpecVersion": "1.1.1", "log": {"level": "error"},
	"storage": {"rootDirectory": %q, "gc": false, "dedupe": false},
	"http": {"address": %q, "port": %q, "compat": ["docker2s2"]},
	"extensions": {"sync": {"enable": true, "registries": [{"urls": ["http://%s"], "onDemand": true, "tlsVerify": false, "content": [{"prefix": "**"}]}]}}
}
`

const targetConfig = `version: 0.1
log:
  level: error
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: %s
http:
  addr: %s
`

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
