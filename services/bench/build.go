package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
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
	alternate(w.ctx, 2, turns...)
	// One build is a turn, and its time varies: four times the usual rounds.
	r := alternate(w.ctx, 4*w.rounds, turns...)
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
func (w *world) measureCached(s *sheet, server *slipwayServer, dockerfile string) {
	w.buildAt(server, dockerfile)
	if !server.submit(requestToBuild(dockerfile)).Cached {
		fail("slipwayd does not say that what it built is cached")
	}
	turn := load{call: server.submitting(requestToBuild(dockerfile)), workers: 1, count: w.requests / 20}.turn(w.ctx, "cached", server.server, nil, nil)
	alternate(w.ctx, 1, turn)
	r := alternate(w.ctx, w.rounds, turn)
	s.median(r, turn.name, p50, atMost(20))
	s.median(r, turn.name, p99, atMost(20))
	s.medians(r, turn.name, cpu)
	w.profile("cached", server, turn)
}

// recipe is a Dockerfile for the same little work, on content that nobody has seen.
func (w *world) recipe() string {
	return fmt.Sprintf("FROM %s/%s\nRUN echo %016x > /round\n", w.up.addr, baseImage, rand.Uint64())
}

// buildAt is pullable for what a Dockerfile makes.
func (w *world) buildAt(slipway *slipwayServer, dockerfile string) sample {
	return slipway.pullable(w.ctx, requestToBuild(dockerfile))
}
