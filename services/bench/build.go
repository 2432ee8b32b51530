package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	nameBuildctl = "buildctl"
	// nameInside is buildctl at slipwayd's own daemon: what slipwayd adds beside it.
	nameInside = "buildctl inside"
)

// measureBuild measures the way from a request with a Dockerfile to its image:
// slipwayd with everything embedded, and buildctl with a buildkitd of its own,
// both warm. Each round has content that nobody has seen. Then it asks for an
// image that is built already.
func measureBuild(w *world, s *sheet) {
	w.push(baseImage)
	peer, server := w.startBuildkitd(), w.startSlipway()
	inside := "unix://" + filepath.Join(server.data, "buildkit", "buildkitd.sock")
	// A daemon clears up after a build: the two that are compared come after a
	// build at the other one's.
	turns := []contender{
		{nameSlipway, func() sample { return w.buildAt(server, w.recipe()) }},
		{nameInside, func() sample { return w.buildctl(inside, w.recipe()) }},
		{nameBuildctl, func() sample { return w.buildctl(peer.addr, w.recipe()) }},
	}
	// The first round waits for the daemons, and fetches the base.
	alternate(w, 2, turns...)
	// One build is a turn, and its time varies: four times the usual rounds.
	r := alternate(w, 4*w.rounds, turns...)
	for _, t := range turns {
		s.medians(r, t.name, took)
	}
	s.medians(r, nameSlipway, metric{"answers the request", "ms", func(s sample) float64 { return s.answered * 1e3 }})
	s.tell("slipway - buildctl", r.difference(nameSlipway, nameBuildctl, took), "ms")
	s.ratio(r, nameSlipway, nameInside, took, bar{})
	s.ratio(r, nameSlipway, nameBuildctl, took, atMost(1.1))
	w.profile("build", server, turns[0])
	w.measureCached(s, server, w.recipe())
}

// measureCached asks again and again for what is built.
func (w *world) measureCached(s *sheet, server *server, dockerfile string) {
	w.buildAt(server, dockerfile)
	if !server.submit(requestToBuild(dockerfile)).Cached {
		fail("slipwayd does not say that what it built is cached")
	}
	turn := load{call: server.submitting(requestToBuild(dockerfile)), workers: 1, count: w.requests / 20}.turn(w, "cached", server, nil, nil)
	alternate(w, 1, turn)
	r := alternate(w, w.rounds, turn)
	s.median(r, turn.name, p50, atMost(20))
	s.median(r, turn.name, p99, atMost(20))
	s.medians(r, turn.name, cpu)
	w.profile("cached", server, turn)
}

// recipe is a Dockerfile for the same little work, on content that nobody has seen.
func (w *world) recipe() string {
	return fmt.Sprintf("FROM %s/%s\nRUN echo %016x > /round\n", w.up.addr, baseImage, rand.Uint64())
}

// requestToBuild is a container request for what a Dockerfile makes.
func requestToBuild(dockerfile string) string {
	return fmt.Sprintf(`{"containerFile":%q}`, base64.StdEncoding.EncodeToString([]byte(dockerfile)))
}

// buildAt is pullable for what a Dockerfile makes.
func (w *world) buildAt(slipway *server, dockerfile string) sample {
	return w.pullable(slipway, requestToBuild(dockerfile))
}

// pullable takes the time from the request until the image's manifest is there.
func (w *world) pullable(slipway *server, body string) sample {
	begin := time.Now()
	image := slipway.request(body)
	answered := time.Since(begin)
	c := engine()
	defer c.CloseIdleConnections()
	_, _, err := read(w.ctx, c, image.manifest(image.ref))
	check(err)
	return sample{took: time.Since(begin).Seconds(), answered: answered.Seconds()}
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

// startBuildkitd is the peer: the buildkitd that slipwayd starts too, without a
// network of its own and without limits. Its addr is a URL.
func (w *world) startBuildkitd() *server {
	beside := filepath.Dir(w.slipwayd)
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
