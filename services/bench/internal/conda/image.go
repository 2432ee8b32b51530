// Package conda measures Conda packages: the solver, the index of a large channel, and the
// images built from packages.
package conda

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"slipway.dev/services/bench/internal/channel"
	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

const (
	nameRecompress = "decoding and encoding alone"
	// warmRequests is the number of environments whose layers all exist, and warmPackages
	// the number of packages of each.
	warmRequests, warmPackages = 100, 20
	// fifths is the number of parts that the channel is divided into. Each existing
	// environment of measureShared lacks one of them.
	fifths = 5
)

// cpuSeconds is the processor time of a whole turn.
var cpuSeconds = figure.Metric{Name: "cpu", Unit: "s", Of: func(s figure.Sample) float64 { return s.CPU }}

// Image measures the time from a request for Conda packages to its image without build
// containers: with an empty slipwayd, with all layers known, the bytes sent for an
// environment similar to an existing one, and the memory for large packages.
func Image(w *world.World, s *figure.Sheet) {
	w.Push(world.BaseImage)
	tree := channel.Tree(w)
	defer tree.Close()
	s.Record("packages", float64(len(tree.Names)), "")
	s.Record("installed", float64(tree.Installed)/1e6, "MB")
	s.Record("packed", float64(tree.Packed)/1e6, "MB")
	measureCold(w, s, tree)
	measureWarm(w, s, tree)
	measureShared(w, s, tree)
	measureLargePackages(w, s)
	measureInstalled(w, s)
}

// packagesAt starts a slipwayd with the channel, which stores its images in a repository of
// the upstream registry at addr.
func packagesAt(w *world.World, addr string, c *channel.Channel) *slipwayd.Server {
	return startPackages(w, c,
		fmt.Sprintf("SLIPWAY_BUILD_REPOSITORY=%s/packages/r%016x", addr, rand.Uint64()), "SLIPWAY_INSECURE_REGISTRIES="+w.Up.Addr+","+addr,
	)
}

// startPackages starts a slipwayd with the channel.
func startPackages(w *world.World, c *channel.Channel, env ...string) *slipwayd.Server {
	server := w.StartSlipway(append(env, "SLIPWAY_CONDA_CHANNEL_ALIAS="+c.URL, "SLIPWAY_CONDA_SOLVE_WAIT=20s")...)
	w.Pause(world.Settled) // the start is not measured
	return server
}

// environment returns a request for packages on the base image.
func environment(w *world.World, c *channel.Channel, packages ...string) string {
	return c.RequestOf(w.Up.Addr+"/"+world.BaseImage, packages...)
}

// measureCold builds every layer, compared with a process that only decompresses, hashes and
// compresses the same packages, without solving, files and network.
func measureCold(w *world.World, s *figure.Sheet, c *channel.Channel) {
	turns := []figure.Contender{
		{Name: nameRecompress, Run: func() figure.Sample {
			p := runStep(w, recompressStep, c.Dir, 0)
			return figure.Sample{CPU: p.Took.CPU, Took: p.Took.Wall}
		}},
		{Name: world.NameSlipway, Run: func() figure.Sample {
			server := packagesAt(w, w.Up.Addr, c)
			defer server.Stop()
			used := process.Watch(server.Server)
			out := server.Pullable(w.Ctx, environment(w, c, c.Names...))
			out.CPU = used()[0]
			return out
		}},
	}
	figure.Alternate(w.Ctx, 1, turns[0]) // reads the packages into the page cache
	r := figure.Alternate(w.Ctx, w.Rounds, turns...)
	for _, t := range turns {
		s.Medians(r, t.Name, cpuSeconds, figure.Took)
	}
	s.Remark = "a fresh slipwayd, pushing to a registry: files, solving and the network included; both compute the same hashes"
	s.Ratio(r, world.NameSlipway, nameRecompress, cpuSeconds, figure.AtMost(1.3))
	s.Remark = ""
	profileCold(w, c)
}

// profileCold profiles a slipwayd that builds every layer once.
func profileCold(w *world.World, c *channel.Channel) {
	if w.Profiles == "" {
		return
	}
	server := packagesAt(w, w.Up.Addr, c)
	defer server.Stop()
	made := false
	w.Profile("image", server, figure.Contender{Name: world.NameSlipway, Run: func() figure.Sample {
		if made {
			w.Pause(world.Settled / 30)
			return figure.Sample{}
		}
		made = true
		return server.Pullable(w.Ctx, environment(w, c, c.Names...))
	}})
}

// measureWarm requests new environments of existing layers from a slipwayd with its own
// image store.
func measureWarm(w *world.World, s *figure.Sheet, c *channel.Channel) {
	server := startPackages(w, c)
	defer server.Stop()
	server.Pullable(w.Ctx, environment(w, c, c.Names...))
	random := rand.New(rand.NewPCG(1, 2))
	var times []time.Duration
	used := process.Watch(server.Server)
	for range warmRequests {
		some := make([]string, 0, warmPackages)
		for _, i := range random.Perm(len(c.Names))[:warmPackages] {
			some = append(some, c.Names[i])
		}
		times = append(times, time.Duration(server.Pullable(w.Ctx, environment(w, c, some...)).Took*float64(time.Second)))
	}
	cpu := used()[0] / warmRequests
	slices.Sort(times)
	s.Remark = fmt.Sprintf("%d environments of %d known packages, until the image can be pulled", warmRequests, warmPackages)
	s.Check("warm p50", figure.Percentile(times, 50), "s", figure.AtMost(0.03))
	s.Check("warm p99", figure.Percentile(times, 99), "s", figure.AtMost(2))
	s.Remark = ""
	s.Record("warm cpu", cpu*1e3, "ms")
}

// measureShared measures the bytes sent for an environment when one with four fifths of its
// packages exists. Each fifth is missing once. A new slipwayd builds both environments each
// time, and all images of the complete environment must have the same digest.
func measureShared(w *world.World, s *figure.Sheet, c *channel.Channel) {
	var parts, beyond []float64
	digests := map[string]bool{}
	for lacking := range fifths {
		gate := newCountingProxy(w.Up.Addr)
		server := packagesAt(w, gate.addr, c)
		var most []string
		for i, name := range c.Names {
			if i%fifths != lacking {
				most = append(most, name)
			}
		}
		first := imageOf(w, server, environment(w, c, most...))
		before := gate.sent.Load()
		all := imageOf(w, server, environment(w, c, c.Names...))
		sent := float64(gate.sent.Load() - before)
		parts, beyond = append(parts, 100*sent/all.size()), append(beyond, 100*(sent/(all.size()-first.size())-1))
		digests[all.digest] = true
		server.Stop()
		must.Do(gate.at.Close())
	}
	s.Remark = "of five environments that lack another fifth of the packages"
	s.Check("sent for one that shares 80 %, median", figure.Median(parts), "%", figure.AtMost(20))
	s.Record("the same, most", slices.Max(parts), "%")
	s.Record("sent beyond the new layers, median", figure.Median(beyond), "%")
	s.Remark = "the same lock at as many services"
	s.Check("digests", float64(len(digests)), "", figure.AtMost(1))
	s.Remark = ""
}

// measureLargePackages measures the total memory of a fresh slipwayd for 3 GB of packages.
func measureLargePackages(w *world.World, s *figure.Sheet) {
	c := channel.Large(w)
	defer c.Close()
	server := packagesAt(w, w.Up.Addr, c)
	before := server.Memory()
	server.ForgetPeak()
	used, begin := process.Watch(server.Server), time.Now()
	server.Built(w.Ctx, server.Submit(environment(w, c, c.Names...)).RequestID)
	elapsed := time.Since(begin)
	s.Remark = fmt.Sprintf("%.1f GB in %d packages, packed; all roles in one process, without GOMEMLIMIT", float64(c.Packed)/1e9, len(c.Names))
	s.Record("3 GB: memory before", before, "MB")
	s.Check("3 GB: most resident", server.Peak(), "MB", figure.AtMost(256))
	s.Record("3 GB: time", elapsed.Seconds(), "s")
	s.Record("3 GB: cpu", used()[0], "s")
	s.Remark = ""
	server.Stop()
}

// measured is a pullable image.
type measured struct {
	digest   string
	manifest []byte
	engine.Document
}

// size returns the total size of its parts in bytes.
func (m measured) size() float64 {
	sum := float64(len(m.manifest)) + float64(m.Config.Size)
	for _, l := range m.Layers {
		sum += float64(l.Size)
	}
	return sum
}

// imageOf waits for the image of a request.
func imageOf(w *world.World, slipway *slipwayd.Server, body string) measured {
	answer := slipway.Submit(body)
	slipway.Built(w.Ctx, answer.RequestID)
	c := engine.New()
	defer c.CloseIdleConnections()
	image := engine.At(answer.TargetImage)
	raw, header, err := engine.Read(w.Ctx, c, image.Manifest(image.Ref))
	must.Do(err)
	m := measured{digest: header.Get("Docker-Content-Digest"), manifest: raw}
	must.Do(json.Unmarshal(raw, &m.Document))
	return m
}
