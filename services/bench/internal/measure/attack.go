package measure

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/internal/testkit/worstcase"
)

// attackers is the number of attackers. Each uses its own network, so that they do not share
// the limits of one client.
const attackers = 16

// memoryLimit is the server's memory_limit in bytes.
const memoryLimit = 512 << 20

// The states in which the server is measured.
const (
	quiet    = "quiet"
	shared   = "attackers elsewhere"
	attacked = "attacked"
)

// Attack measures the response times of a client while attackers send the most expensive
// bodies that the public calls accept, as fast as they can. In the reference, the attackers
// send the same bodies to another server on the same processors, which discards them.
// memory_limit is 512 MiB.
func Attack(w *world.World, s *figure.Sheet) {
	w.Push(world.AppImage)
	channel := httptest.NewServer(http.HandlerFunc(serveRepodata))
	defer channel.Close()
	server := w.StartSlipway(
		fmt.Sprintf("SLIPWAY_MEMORY_LIMIT=%d", memoryLimit), "SLIPWAY_TRUSTED_PROXIES=127.0.0.1", "SLIPWAY_CONDA_CHANNEL_ALIAS="+channel.URL,
		"SLIPWAY_LIMIT_REQUESTS_ANONYMOUS=0", "SLIPWAY_LIMIT_PULLS_ANONYMOUS=0", "SLIPWAY_LIMIT_SEARCHES_ANONYMOUS=0",
	)
	defer server.Stop()
	image := server.Request(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer elsewhere.Close()
	calls := []struct{ name, url string }{
		{"service-info", server.URL("/service-info")},
		{"search", server.URL("/v1alpha1/conda/packages?q=tool&channel=conda-forge")},
		{"pull", image.Manifest(image.Ref)},
	}
	bodies := worstcase.Bodies()
	sent := map[string]int64{}
	for _, call := range calls {
		var turns []figure.Contender
		for _, state := range []struct{ name, target string }{{quiet, ""}, {shared, elsewhere.URL}, {attacked, server.URL("")}} {
			turn := victim(w, call.url, w.Requests/10).Turn(w.Ctx, call.name+", "+state.name, server.Server, nil, nil)
			turns = append(turns, figure.Contender{Name: turn.Name, Run: func() figure.Sample {
				stop := startAttack(w.Ctx, state.target, slices.Collect(maps.Values(bodies)))
				sample := turn.Run()
				sent[state.name] += stop()
				return sample
			}})
		}
		r := figure.Alternate(w.Ctx, w.Rounds, turns...)
		for _, t := range turns {
			s.Medians(r, t.Name, figure.P50, figure.P99)
		}
		s.Ratio(r, call.name+", "+attacked, call.name+", "+shared, figure.P99, figure.AtMost(4))
		s.Ratio(r, call.name+", "+attacked, call.name+", "+quiet, figure.P99, figure.Bar{})
	}
	// Each kind of body by itself. The sample is the slowest of the three calls.
	for _, kind := range slices.Sorted(maps.Keys(bodies)) {
		var turns []figure.Contender
		for _, state := range []struct{ name, target string }{{shared, elsewhere.URL}, {attacked, server.URL("")}} {
			turns = append(turns, figure.Contender{Name: kind + ", " + state.name, Run: func() (slowest figure.Sample) {
				stop := startAttack(w.Ctx, state.target, []worstcase.Body{bodies[kind]})
				for _, call := range calls {
					if sample := must.Get(victim(w, call.url, w.Requests/100).Run(w.Ctx)); sample.P99 > slowest.P99 {
						slowest = sample
					}
				}
				sent[state.name] += stop()
				return slowest
			}})
		}
		r := figure.Alternate(w.Ctx, w.Rounds, turns...)
		s.Ratio(r, turns[1].Name, turns[0].Name, figure.P99, figure.AtMost(4))
	}
	s.Record("bodies sent elsewhere", float64(sent[shared]), "")
	s.Record("bodies sent", float64(sent[attacked]), "")
	s.Check("peak memory", server.Peak(), "MB", figure.AtMost(float64(memoryLimit/1_000_000)))
}

// victim returns the load of a client that calls one URL every two milliseconds.
func victim(w *world.World, url string, count int) load.Load {
	return load.Load{Call: load.Get(url), Workers: 1, Count: count, Every: 2 * time.Millisecond}
}

// serveRepodata is a Conda channel of one package.
func serveRepodata(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/noarch/repodata.json") {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, `{"info":{"subdir":"noarch"},"packages":{},"packages.conda":{"tool-1.0-0.conda":{"name":"tool","version":"1.0","build":"0",`+
		`"build_number":0,"depends":[],"size":1,"md5":"d41d8cd98f00b204e9800998ecf8427e",`+
		`"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","noarch":"generic","subdir":"noarch"}}}`)
}

// startAttack sends bodies to a server repeatedly until stop is called; an empty target means
// no attack. stop returns the number of bodies sent. It ends the section if the server
// returned an unexpected status, or if nothing was sent.
func startAttack(ctx context.Context, target string, bodies []worstcase.Body) (stop func() int64) {
	if target == "" {
		return func() int64 { return 0 }
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	var sent, unexpected atomic.Int64
	for i := range attackers {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				status := send(ctx, target, fmt.Sprintf("192.0.%d.1", i), bodies[n%len(bodies)])
				sent.Add(1)
				if status/100 == 5 && status != http.StatusServiceUnavailable {
					unexpected.Store(int64(status))
				}
			}
		})
	}
	return func() int64 {
		cancel()
		all.Wait()
		if sent.Load() == 0 || unexpected.Load() != 0 {
			must.Fail("the attackers sent %d bodies and got the status %d", sent.Load(), unexpected.Load())
		}
		return sent.Load()
	}
}

// send sends a body from an address and returns the status; 0 if the server closed the
// connection or the context ended.
func send(ctx context.Context, target, address string, b worstcase.Body) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target+b.Path, strings.NewReader(b.JSON))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", address)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
