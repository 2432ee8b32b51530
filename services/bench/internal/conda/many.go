package conda

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"slipway.dev/services/bench/internal/channel"
	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/internal/testkit/condadata"
)

// atOnce is the number of requests that one client sends at once.
const atOnce = 1000

// measureMany sends requests for different environments of real packages at once, as a
// pipeline does, and measures the time to each response. slipwayd has the index of the channel
// already. No environment may become a Dockerfile. The builds that follow are not measured;
// they end soon, because the channel has no artifacts.
func measureMany(w *world.World, s *figure.Sheet) {
	w.Push(world.BaseImage)
	forge := forgeChannel(w)
	defer forge.Close()
	server := startForge(w, forge)
	defer server.Stop()
	used := process.Watch(server.Server)
	times, builds := sendAtOnce(w, forge, server)
	cpu := used()[0] / atOnce
	direct := 0
	for _, id := range builds {
		var build struct {
			ContainerFile string `json:"containerFile"`
		}
		raw, _, err := engine.Read(w.Ctx, http.DefaultClient, server.URL("/v1alpha1/builds/"+id))
		must.Do(err)
		must.Do(json.Unmarshal(raw, &build))
		if build.ContainerFile == "" {
			direct++
		}
	}
	s.Remark = "requests for different environments at once from one client, without builds"
	s.Check("at once: assembled directly", float64(direct), "", figure.AtLeast(atOnce))
	s.Record("at once: p50", figure.Percentile(times, 50), "s")
	s.Check("at once: p99", figure.Percentile(times, 99), "s", figure.AtMost(1))
	s.Record("at once: cpu", cpu*1e3, "ms")
	s.Remark = ""
	profileMany(w, forge)
}

// startForge starts a slipwayd and makes it fetch the list of the channel.
func startForge(w *world.World, forge *channel.Channel) *slipwayd.Server {
	server := w.StartSlipway("SLIPWAY_CONDA_CHANNEL_ALIAS="+forge.URL, "SLIPWAY_INSECURE_REGISTRIES="+w.Up.Addr)
	server.Submit(environment(w, forge, "xz"))
	return server
}

// sendAtOnce sends the requests, and returns their sorted response times and the ids of the
// builds.
func sendAtOnce(w *world.World, forge *channel.Channel, server *slipwayd.Server) (times []time.Duration, builds []string) {
	client := load.Client(server.URL("/"), atOnce)
	defer client.CloseIdleConnections()
	times, bodies, problems := make([]time.Duration, atOnce), make([][]byte, atOnce), make([]error, atOnce)
	var all sync.WaitGroup
	for i, packages := range manyEnvironments() {
		call := server.Submitting(environment(w, forge, packages...))
		all.Go(func() {
			began := time.Now()
			bodies[i], problems[i] = load.Once(client, call)
			times[i] = time.Since(began)
		})
	}
	all.Wait()
	must.Do(errors.Join(problems...))
	for _, body := range bodies {
		var answer struct {
			BuildID string `json:"buildId"`
		}
		must.Do(json.Unmarshal(body, &answer))
		builds = append(builds, answer.BuildID)
	}
	slices.Sort(times)
	return times, builds
}

// profileMany profiles a slipwayd that receives the requests once.
func profileMany(w *world.World, forge *channel.Channel) {
	if w.Profiles == "" {
		return
	}
	server := startForge(w, forge)
	defer server.Stop()
	sent := false
	w.Profile("at-once", server, figure.Contender{Name: world.NameSlipway, Run: func() figure.Sample {
		if sent {
			w.Pause(world.Settled / 30)
			return figure.Sample{}
		}
		sent = true
		sendAtOnce(w, forge, server)
		return figure.Sample{}
	}})
}

// forgeChannel serves the real records, without artifacts.
func forgeChannel(w *world.World) *channel.Channel {
	dir := must.Get(os.MkdirTemp(w.Dir, "channel-"))
	for _, subdir := range indexFolders() {
		folder := filepath.Join(dir, "bench", subdir)
		must.Do(os.MkdirAll(folder, 0o700))
		must.Do(os.WriteFile(filepath.Join(folder, "repodata.json"), condadata.Repodata(must.T{}, forgeName, subdir), 0o600))
	}
	return &channel.Channel{Server: httptest.NewServer(http.FileServer(http.Dir(dir)))}
}

// manyEnvironments returns different requests that have a solution: realistic ones, and then
// single packages.
func manyEnvironments() (all [][]string) {
	for _, c := range slices.Concat(condadata.Solves(must.T{}), condadata.Drawn(must.T{})) {
		if c.Rattler != nil {
			all = append(all, c.Specs)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(condadata.Records(must.T{}, forgeName, "noarch"))) {
		all = append(all, []string{name})
	}
	return all[:atOnce]
}
