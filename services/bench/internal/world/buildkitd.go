package world

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
)

// StartBuildkitd starts the peer: the same buildkitd that slipwayd starts, without network
// isolation and limits. Its Addr is a URL. Its steps run in control groups below steps, a path in the file system of these; "" is the
// daemon's own choice. It pushes to the upstream registry and to others over plain HTTP.
func (w *World) StartBuildkitd(steps string, others ...string) *process.Server {
	beside := filepath.Dir(w.Binary)
	program := filepath.Join(beside, "buildkitd")
	if _, err := os.Stat(program); err != nil {
		must.Fail("there is no buildkitd beside slipwayd (make builder): %w", err)
	}
	dir := must.Get(os.MkdirTemp(w.Dir, "buildkitd-"))
	socket, config := filepath.Join(dir, "sock"), filepath.Join(dir, "buildkitd.toml")
	text := fmt.Appendf(nil, buildkitdConfig, filepath.Join(dir, "root"), "unix://"+socket, must.Get(findRuntime(beside)), steps)
	for _, registry := range append(others, w.Up.Addr) {
		text = fmt.Appendf(text, "[registry.%q]\n  http = true\n", registry)
	}
	must.Do(os.WriteFile(config, text, 0o600))
	return w.Start(process.Command{Name: "buildkitd", Path: program, Args: []string{"--config", config}, Addr: "unix://" + socket, Ready: process.Listens("unix", socket)})
}

const buildkitdConfig = `root = %q
[grpc]
  address = [%q]
[worker.containerd]
  enabled = false
[worker.oci]
  enabled = true
  networkMode = "host"
  binary = %q
  defaultCgroupParent = %q
`

// findRuntime looks for runc in the same places as slipwayd.
func findRuntime(dir string) (string, error) {
	for _, name := range []string{"buildkit-runc", "runc"} {
		if path := filepath.Join(dir, name); exec.Command(path, "--version").Run() == nil {
			return path, nil
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no runc (make builder)")
}

// Buildctl measures one `buildctl build` that pushes to the upstream registry, with the
// attestation that slipwayd adds.
func (w *World) Buildctl(daemon, dockerfile string) figure.Sample {
	dir := must.Get(os.MkdirTemp(w.Dir, "context-"))
	defer os.RemoveAll(dir)
	must.Do(os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600))
	cmd := exec.CommandContext(w.Ctx, w.Ctl(), "--addr", daemon, "build", "--progress", "plain",
		"--frontend", "dockerfile.v0", "--local", "context="+dir, "--local", "dockerfile="+dir,
		"--opt", "platform=linux/amd64", "--opt", "attest:provenance=mode=max",
		"--output", fmt.Sprintf("type=image,oci-mediatypes=true,push=true,name=%s/bench/built:%016x", w.Up.Addr, rand.Uint64()))
	cmd.Env = []string{"HOME=" + w.Dir}
	begin := time.Now()
	Output(cmd)
	return figure.Sample{Took: time.Since(begin).Seconds()}
}

// Ctl returns the path of buildctl.
func (w *World) Ctl() string {
	if w.ctl == "" {
		w.ctl = w.buildPeer(buildctlPackage)
	}
	return w.ctl
}
