package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	nameRecompress = "decoding and encoding alone"
	// warmRequests are for environments of which every layer is known, each of so many
	// packages of the channel.
	warmRequests, warmPackages = 100, 20
	// fifths is in how many parts the channel is cut for environments that share the rest.
	fifths = 5
)

// cpuSeconds is for turns that are not made of calls.
var cpuSeconds = metric{"cpu", "s", func(s sample) float64 { return s.cpu }}

// measureImage measures the way from a request for Conda packages to its image, which no
// container has a part in: from an empty slipwayd, from one that knows all layers, what
// is sent for an environment that is much like another, and what memory much takes.
func measureImage(w *world, s *sheet) {
	w.push(baseImage)
	tree := w.treeChannel()
	defer tree.Close()
	s.tell("packages", float64(len(tree.names)), "")
	s.tell("installed", float64(tree.installed)/1e6, "MB")
	s.tell("packed", float64(tree.packed)/1e6, "MB")
	w.measureCold(s, tree)
	w.measureWarm(s, tree)
	w.measureShared(s, tree)
	w.measureLargePackages(s)
	measureInstalled(w, s)
}

// packagesAt starts a slipwayd that knows of the channel, and keeps its images in a
// repository of the upstream registry, which is reached at addr.
func (w *world) packagesAt(addr string, c *channel) *slipwayServer {
	return w.startPackages(c,
		fmt.Sprintf("SLIPWAY_BUILD_REPOSITORY=%s/packages/r%016x", addr, rand.Uint64()), "SLIPWAY_INSECURE_REGISTRIES="+w.up.addr+","+addr,
	)
}

// startPackages starts a slipwayd that knows of the channel.
func (w *world) startPackages(c *channel, env ...string) *slipwayServer {
	server := w.startSlipway(append(env, "SLIPWAY_CONDA_CHANNEL_ALIAS="+c.URL, "SLIPWAY_CONDA_SOLVE_WAIT=20s")...)
	w.pause(settled) // its start is no part of what follows
	return server
}

// environment is a request for packages on the base image.
func (w *world) environment(c *channel, packages ...string) string {
	return c.requestOf(w.up.addr+"/"+baseImage, packages...)
}

// measureCold makes every layer, against a process that decodes and encodes the same
// packages, and does nothing else: no digest, no file, no network.
func (w *world) measureCold(s *sheet, c *channel) {
	turns := []contender{
		{nameRecompress, func() sample {
			p := w.stepOf(recompressStep, c.dir, 0)
			return sample{cpu: p.Took.CPU, took: p.Took.Wall}
		}},
		{nameSlipway, func() sample {
			server := w.packagesAt(w.up.addr, c)
			defer server.stop()
			used := watch(server.server)
			out := server.pullable(w.ctx, w.environment(c, c.names...))
			out.cpu = used()[0]
			return out
		}},
	}
	alternate(w.ctx, 1, turns[0]) // reads the packages into the page cache
	r := alternate(w.ctx, w.rounds, turns...)
	for _, t := range turns {
		s.medians(r, t.name, cpuSeconds, took)
	}
	s.remark = "a fresh slipwayd, pushing to a registry: hashes, files, solving and the network included"
	s.ratio(r, nameSlipway, nameRecompress, cpuSeconds, atMost(1.2))
	s.remark = ""
	w.profileCold(c)
}

// profileCold profiles a slipwayd that makes every layer once.
func (w *world) profileCold(c *channel) {
	if w.profiles == "" {
		return
	}
	server := w.packagesAt(w.up.addr, c)
	defer server.stop()
	made := false
	w.profile("image", server, contender{nameSlipway, func() sample {
		if made {
			w.pause(settled / 30)
			return sample{}
		}
		made = true
		return server.pullable(w.ctx, w.environment(c, c.names...))
	}})
}

// measureWarm asks for environments of known layers that nobody has asked for, at a
// slipwayd with its own image store.
func (w *world) measureWarm(s *sheet, c *channel) {
	server := w.startPackages(c)
	defer server.stop()
	server.pullable(w.ctx, w.environment(c, c.names...))
	random := rand.New(rand.NewPCG(1, 2))
	var times []time.Duration
	used := watch(server.server)
	for range warmRequests {
		some := make([]string, 0, warmPackages)
		for _, i := range random.Perm(len(c.names))[:warmPackages] {
			some = append(some, c.names[i])
		}
		times = append(times, time.Duration(server.pullable(w.ctx, w.environment(c, some...)).took*float64(time.Second)))
	}
	cpu := used()[0] / warmRequests
	slices.Sort(times)
	s.remark = fmt.Sprintf("%d environments of %d known packages, until the image can be pulled", warmRequests, warmPackages)
	s.hold("warm p50", percentile(times, 50), "s", atMost(0.5))
	s.hold("warm p99", percentile(times, 99), "s", atMost(2))
	s.remark = ""
	s.tell("warm cpu", cpu*1e3, "ms")
}

// measureShared looks at what is sent for an environment when one is there that has four
// fifths of its packages: each fifth is once what it lacks. Every time it is another
// slipwayd that makes the whole, which has one digest.
func (w *world) measureShared(s *sheet, c *channel) {
	var parts, beyond []float64
	digests := map[string]bool{}
	for lacking := range fifths {
		gate := newToll(w.up.addr)
		server := w.packagesAt(gate.addr, c)
		var most []string
		for i, name := range c.names {
			if i%fifths != lacking {
				most = append(most, name)
			}
		}
		first := w.imageOf(server, w.environment(c, most...))
		before := gate.sent.Load()
		all := w.imageOf(server, w.environment(c, c.names...))
		sent := float64(gate.sent.Load() - before)
		parts, beyond = append(parts, 100*sent/all.size()), append(beyond, 100*(sent/(all.size()-first.size())-1))
		digests[all.digest] = true
		server.stop()
		check(gate.at.Close())
	}
	s.remark = "of five environments that lack another fifth of the packages"
	s.hold("sent for one that shares 80 %, median", median(parts), "%", atMost(20))
	s.tell("the same, most", slices.Max(parts), "%")
	s.tell("sent beyond the new layers, median", median(beyond), "%")
	s.remark = "the same lock at as many services"
	s.hold("digests", float64(len(digests)), "", atMost(1))
	s.remark = ""
}

// measureLargePackages looks at the memory that a fresh slipwayd, with all it is, takes
// for 3 GB of packages.
func (w *world) measureLargePackages(s *sheet) {
	c := w.largeChannel()
	defer c.Close()
	server := w.packagesAt(w.up.addr, c)
	before := server.memory()
	server.forgetPeak()
	used, begin := watch(server.server), time.Now()
	server.built(w.ctx, server.submit(w.environment(c, c.names...)).RequestID)
	elapsed := time.Since(begin)
	s.remark = fmt.Sprintf("%.1f GB in %d packages, packed; all roles in one process, without GOMEMLIMIT", float64(c.packed)/1e9, len(c.names))
	s.tell("3 GB: memory before", before, "MB")
	s.hold("3 GB: most resident", server.peak(), "MB", atMost(256))
	s.tell("3 GB: time", elapsed.Seconds(), "s")
	s.tell("3 GB: cpu", used()[0], "s")
	s.remark = ""
	server.stop()
}

// measured is an image as it can be pulled.
type measured struct {
	digest   string
	manifest []byte
	document
}

// size is what all of it takes to send, in bytes.
func (m measured) size() float64 {
	sum := float64(len(m.manifest)) + float64(m.Config.Size)
	for _, l := range m.Layers {
		sum += float64(l.Size)
	}
	return sum
}

// imageOf waits for the image of a request.
func (w *world) imageOf(slipway *slipwayServer, body string) measured {
	answer := slipway.submit(body)
	slipway.built(w.ctx, answer.RequestID)
	c := engine()
	defer c.CloseIdleConnections()
	image := at(answer.TargetImage)
	raw, header, err := read(w.ctx, c, image.manifest(image.ref))
	check(err)
	m := measured{digest: header.Get("Docker-Content-Digest"), manifest: raw}
	check(json.Unmarshal(raw, &m.document))
	return m
}
