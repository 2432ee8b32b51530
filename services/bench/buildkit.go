package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// startBuildkitd is the peer: the buildkitd that slipwayd starts too, without a
// network of its own and without limits. Its addr is a path.
func (w *world) startBuildkitd(ctx context.Context) (*server, error) {
	program := filepath.Join(filepath.Dir(w.slipwayd), "buildkitd")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("there is no buildkitd beside slipwayd (make builder): %w", err)
	}
	runtime, err := findRuntime(filepath.Dir(program))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(w.dir, "buildkitd-")
	if err != nil {
		return nil, err
	}
	socket, config := filepath.Join(dir, "sock"), filepath.Join(dir, "buildkitd.toml")
	text := fmt.Sprintf(buildkitdConfig, filepath.Join(dir, "root"), "unix://"+socket, runtime, w.up.addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return w.fleet.start(ctx, command{
		name: "buildkitd", path: program, args: []string{"--config", config}, addr: "unix://" + socket,
		ready: func(ctx context.Context) error { return listens(ctx, socket) },
	})
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

func listens(ctx context.Context, socket string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return c.Close()
}

// daemon is where slipwayd's own buildkitd listens.
func (s *server) daemon() string {
	return "unix://" + filepath.Join(s.data, "buildkit", "buildkitd.sock")
}

// buildctl takes the time of one `buildctl build` that pushes to the upstream
// registry, with the attestation that slipwayd adds.
func (w *world) buildctl(ctx context.Context, daemon, dockerfile string) (sample, error) {
	program, err := w.buildctlProgram(ctx)
	if err != nil {
		return sample{}, err
	}
	dir, err := os.MkdirTemp(w.dir, "context-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		return sample{}, err
	}
	image := fmt.Sprintf("%s/bench/built:%016x", w.up.addr, rand.Uint64())
	cmd := exec.CommandContext(ctx, program, "--addr", daemon, "build", "--progress", "plain",
		"--frontend", "dockerfile.v0", "--local", "context="+dir, "--local", "dockerfile="+dir,
		"--opt", "platform=linux/amd64", "--opt", "attest:provenance=mode=max",
		"--output", "type=image,oci-mediatypes=true,push=true,name="+image)
	cmd.Env = []string{"HOME=" + w.dir}
	begin := time.Now()
	if said, err := cmd.CombinedOutput(); err != nil {
		return sample{}, fmt.Errorf("buildctl: %w\n%s", err, said)
	}
	return sample{took: time.Since(begin).Seconds()}, nil
}

func (w *world) buildctlProgram(ctx context.Context) (string, error) {
	if w.ctl != "" {
		return w.ctl, nil
	}
	var err error
	w.ctl, err = buildPeer(ctx, w.bin, buildctlPackage)
	return w.ctl, err
}
