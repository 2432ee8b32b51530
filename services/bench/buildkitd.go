package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// startBuildkitd is the peer: the buildkitd that slipwayd starts too, without a
// network of its own and without limits. Its addr is a URL.
func (w *world) startBuildkitd() *server {
	beside := filepath.Dir(w.binary)
	program := filepath.Join(beside, "buildkitd")
	if _, err := os.Stat(program); err != nil {
		fail("there is no buildkitd beside slipwayd (make builder): %w", err)
	}
	dir := must(os.MkdirTemp(w.dir, "buildkitd-"))
	socket, config := filepath.Join(dir, "sock"), filepath.Join(dir, "buildkitd.toml")
	check(os.WriteFile(config, fmt.Appendf(nil, buildkitdConfig, filepath.Join(dir, "root"), "unix://"+socket, must(findRuntime(beside)), w.up.addr), 0o600))
	return w.start(command{name: "buildkitd", path: program, args: []string{"--config", config}, addr: "unix://" + socket, ready: listens("unix", socket)})
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
[registry.%q]
  http = true
`

// findRuntime looks where slipwayd does.
func findRuntime(beside string) (string, error) {
	for _, name := range []string{"buildkit-runc", "runc"} {
		if path := filepath.Join(beside, name); exec.Command(path, "--version").Run() == nil {
			return path, nil
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no runc (make builder)")
}

// buildctl takes the time of one `buildctl build` that pushes to the upstream
// registry, with the attestation that slipwayd adds.
func (w *world) buildctl(daemon, dockerfile string) sample {
	if w.ctl == "" {
		w.ctl = w.buildPeer(buildctlPackage)
	}
	dir := must(os.MkdirTemp(w.dir, "context-"))
	defer os.RemoveAll(dir)
	check(os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600))
	cmd := exec.CommandContext(w.ctx, w.ctl, "--addr", daemon, "build", "--progress", "plain",
		"--frontend", "dockerfile.v0", "--local", "context="+dir, "--local", "dockerfile="+dir,
		"--opt", "platform=linux/amd64", "--opt", "attest:provenance=mode=max",
		"--output", fmt.Sprintf("type=image,oci-mediatypes=true,push=true,name=%s/bench/built:%016x", w.up.addr, rand.Uint64()))
	cmd.Env = []string{"HOME=" + w.dir}
	begin := time.Now()
	output(cmd)
	return sample{took: time.Since(begin).Seconds()}
}
