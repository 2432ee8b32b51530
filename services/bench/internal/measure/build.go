package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

const (
	nameBuildctl = "buildctl"
	// nameInside is buildctl with slipwayd's own daemon, which shows the overhead of
	// slipwayd.
	nameInside = "buildctl inside"
)

// Build measures the time from a request with a Dockerfile to its image: slipwayd with
// everything embedded, and buildctl with its own buildkitd, both warm. Each round has new
// content. Then it requests an image that exists already.
func Build(w *world.World, s *figure.Sheet) {
	w.Push(world.BaseImage)
	peer, server := w.StartBuildkitd(""), w.StartSlipway()
	inside := "unix://" + filepath.Join(server.Data, "buildkit", "buildkitd.sock")
	// A daemon cleans up after a build, so the compared builds alternate between daemons.
	turns := []figure.Contender{
		{Name: world.NameSlipway, Run: func() figure.Sample { return buildAt(w, server, recipe(w)) }},
		{Name: nameInside, Run: func() figure.Sample { return w.Buildctl(inside, recipe(w)) }},
		{Name: nameBuildctl, Run: func() figure.Sample { return w.Buildctl(peer.Addr, recipe(w)) }},
	}
	// The first round waits for the daemons, and fetches the base image.
	figure.Alternate(w.Ctx, 2, turns...)
	// A turn is one build, whose time varies: this needs four times the usual rounds.
	r := figure.Alternate(w.Ctx, 4*w.Rounds, turns...)
	for _, t := range turns {
		s.Medians(r, t.Name, figure.Took)
	}
	s.Medians(r, world.NameSlipway, figure.Metric{Name: "answers the request", Unit: "ms", Of: func(s figure.Sample) float64 { return s.Answered * 1e3 }})
	for _, name := range []string{nameBuildctl, nameInside} {
		s.Check("slipway - "+name, r.Difference(world.NameSlipway, name, figure.Took), "ms", figure.AtMost(15))
		s.Ratio(r, world.NameSlipway, name, figure.Took, figure.Bar{})
	}
	w.Profile("build", server, turns[0])
	measureLog(w, s, server)
	measureCached(w, s, server, recipe(w))
}

// logLines is the number of lines that the step of measureLog prints, one each 10 ms.
const logLines = 500

// measureLog measures the time from a line of a step's output until a reader of the build's log has it.
func measureLog(w *world.World, s *figure.Sheet, server *slipwayd.Server) {
	dockerfile := recipe(w) + fmt.Sprintf("RUN i=0; while [ $i -lt %d ]; do echo line $EPOCHREALTIME; usleep 10000; i=$((i+1)); done\n", logLines)
	id := buildOf(w, server, server.Submit(slipwayd.RequestToBuild(dockerfile)).RequestID)
	req := must.Get(http.NewRequestWithContext(w.Ctx, http.MethodGet, server.URL("/v1alpha1/builds/"+id+"/logs?follow=true"), http.NoBody))
	resp := must.Get(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	var waits []time.Duration
	for log := bufio.NewScanner(resp.Body); log.Scan(); {
		if _, printed, ok := strings.Cut(log.Text(), "line "); ok {
			if at, err := strconv.ParseFloat(printed, 64); err == nil {
				waits = append(waits, time.Since(time.UnixMicro(int64(at*1e6))))
			}
		}
	}
	if len(waits) != logLines {
		must.Fail("the log of the build %s has %d of %d lines", id, len(waits), logLines)
	}
	slices.Sort(waits)
	s.Remark = fmt.Sprintf("%d lines, one each 10 ms", logLines)
	s.Record("line to reader p50", figure.Percentile(waits, 50)*1e3, "ms")
	s.Check("line to reader p99", figure.Percentile(waits, 99)*1e3, "ms", figure.AtMost(20))
	s.Remark = ""
}

// buildOf returns the id of a request's build.
func buildOf(w *world.World, server *slipwayd.Server, request string) string {
	var described struct {
		BuildID string `json:"buildId"`
	}
	raw, _, err := engine.Read(w.Ctx, http.DefaultClient, server.URL("/v1alpha2/container/"+request))
	must.Do(err)
	must.Do(json.Unmarshal(raw, &described))
	return described.BuildID
}

// measureCached repeatedly requests an existing image.
func measureCached(w *world.World, s *figure.Sheet, server *slipwayd.Server, dockerfile string) {
	buildAt(w, server, dockerfile)
	if !server.Submit(slipwayd.RequestToBuild(dockerfile)).Cached {
		must.Fail("slipwayd does not say that what it built is cached")
	}
	turn := load.Load{Call: server.Submitting(slipwayd.RequestToBuild(dockerfile)), Workers: 1, Count: w.Requests / 20}.Turn(w.Ctx, "cached", server.Server, nil, nil)
	figure.Alternate(w.Ctx, 1, turn)
	r := figure.Alternate(w.Ctx, w.Rounds, turn)
	s.Median(r, turn.Name, figure.P50, figure.AtMost(20))
	s.Median(r, turn.Name, figure.P99, figure.AtMost(20))
	s.Medians(r, turn.Name, figure.CPU)
	w.Profile("cached", server, turn)
}

// recipe returns a Dockerfile for the same small build with new content.
func recipe(w *world.World) string {
	return fmt.Sprintf("FROM %s/%s\nRUN echo %016x > /round\n", w.Up.Addr, world.BaseImage, rand.Uint64())
}

// buildAt is Pullable for a Dockerfile.
func buildAt(w *world.World, slipway *slipwayd.Server, dockerfile string) figure.Sample {
	return slipway.Pullable(w.Ctx, slipwayd.RequestToBuild(dockerfile))
}
