package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// buildSection measures the way from a request with a Dockerfile to its image:
// slipwayd with everything embedded, and buildctl with a buildkitd of its own,
// both warm. Each round has content that nobody has seen. Then it asks for an
// image that is built already.
type buildSection struct{}

func (buildSection) name() string { return "build" }

const (
	nameBuildctl = "buildctl"
	// nameInside is buildctl at slipwayd's own daemon: what slipwayd adds beside it.
	nameInside = "buildctl inside"
)

func (buildSection) measure(ctx context.Context, w *world, s *sheet) error {
	if err := w.push(ctx, baseImage); err != nil {
		return err
	}
	peer, err := w.startBuildkitd(ctx)
	if err != nil {
		return err
	}
	defer w.fleet.stop(peer)
	server, err := w.startSlipway(ctx, "SLIPWAY_LIMIT_BUILDS_ANONYMOUS=1000000000/1h")
	if err != nil {
		return err
	}
	defer w.fleet.stop(server)
	r := recipes{base: w.up.addr + "/" + baseImage}
	// A daemon clears up after a build: the two that are compared come after a
	// build at the other one's.
	turns := []contender{
		{nameSlipway, func(ctx context.Context) (sample, error) { return buildAt(ctx, server, r.next()) }},
		{nameInside, func(ctx context.Context) (sample, error) { return w.buildctl(ctx, server.daemon(), r.next()) }},
		{nameBuildctl, func(ctx context.Context) (sample, error) { return w.buildctl(ctx, peer.addr, r.next()) }},
	}
	// The first round waits for the daemons, and fetches the base.
	if _, err := alternate(ctx, 2, turns); err != nil {
		return err
	}
	// One build is a turn, and its time varies: four times the usual rounds.
	found, err := alternate(ctx, 4*w.rounds, turns)
	if err != nil {
		return err
	}
	for _, t := range turns {
		s.tell(t.name, found.median(t.name, took)*1000, "ms")
	}
	s.tell("slipway answers the request", found.median(nameSlipway, answered)*1000, "ms")
	s.tell("slipway - buildctl", found.difference(nameSlipway, nameBuildctl, took)*1000, "ms")
	s.tell("slipway / buildctl inside", found.ratio(nameSlipway, nameInside, took), "x")
	s.hold("slipway / buildctl", found.ratio(nameSlipway, nameBuildctl, took), "x", atMost(1.1))
	if err := w.profile(ctx, "build", server, turns[0]); err != nil {
		return err
	}
	return measureCached(ctx, w, s, server, r.next())
}

// measureCached asks again and again for what is built.
func measureCached(ctx context.Context, w *world, s *sheet, server *server, dockerfile string) error {
	if _, err := buildAt(ctx, server, dockerfile); err != nil {
		return err
	}
	a, err := submit(ctx, server, requestToBuild(dockerfile))
	if err != nil {
		return err
	}
	if !a.Cached {
		return errors.New("slipwayd does not say that what it built is cached")
	}
	load := load{host: server.addr, call: post(server.addr, "/v1alpha2/container", requestToBuild(dockerfile)), workers: 1, count: w.requests / 20}
	turn := contender{"cached", func(ctx context.Context) (sample, error) { return load.metered(ctx, server, w.up, nil) }}
	if _, err := alternate(ctx, 1, []contender{turn}); err != nil {
		return err
	}
	found, err := alternate(ctx, w.rounds, []contender{turn})
	if err != nil {
		return err
	}
	s.hold("cached p50", found.median(turn.name, p50)*1000, "ms", atMost(20))
	s.hold("cached p99", found.median(turn.name, p99)*1000, "ms", atMost(20))
	s.tell("cached cpu", found.median(turn.name, cpu)*1e6, "us")
	return w.profile(ctx, "cached", server, turn)
}

// What figures read from samples.
func took(s sample) float64     { return s.took }
func answered(s sample) float64 { return s.answered }

// recipes are Dockerfiles for the same little work on different content.
type recipes struct{ base string }

func (r recipes) next() string {
	return fmt.Sprintf("FROM %s\nRUN echo %016x > /round\n", r.base, rand.Uint64())
}

// requestToBuild is a container request for what a Dockerfile makes.
func requestToBuild(dockerfile string) string {
	return fmt.Sprintf(`{"containerFile":%q}`, base64.StdEncoding.EncodeToString([]byte(dockerfile)))
}

// buildAt takes the time from the request until the image's manifest is there.
func buildAt(ctx context.Context, slipway *server, dockerfile string) (sample, error) {
	begin := time.Now()
	image, err := request(ctx, slipway, requestToBuild(dockerfile))
	if err != nil {
		return sample{}, err
	}
	answered := time.Since(begin)
	t := image.manifest(image.ref)
	if _, err := once(ctx, t.host, t.get(), nil); err != nil {
		return sample{}, err
	}
	return sample{took: time.Since(begin).Seconds(), answered: answered.Seconds()}, nil
}
