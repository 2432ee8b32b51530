package measure

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

const (
	nameCounting = "counting"
	nameNot      = "not counting"
	// perMinute is the required rate of pulls per minute.
	perMinute = 100_000
)

// Count measures the cost of counting: the same pulls at two processes, one of which counts
// them; how soon many pulls are counted; and queries over a year of 5,000 organisations.
func Count(w *world.World, s *figure.Sheet) {
	w.Push(world.AppImage)
	redis := w.RedisSetting()
	s.Remark = w.RemarkRedis()
	counting := w.StartSlipway(append(redis, "SLIPWAY_METRICS_ACCOUNTS_FILE="+metricsAccounts(w))...)
	compareCounting(w, s, counting, w.StartSlipway(append(redis, "SLIPWAY_COUNT_PULLS=false")...))
	year(w, s)
}

// compareCounting loads both servers, at full speed and at the required rate.
func compareCounting(w *world.World, s *figure.Sheet, counting, not *slipwayd.Server) {
	var full, paced []figure.Contender
	for _, c := range []struct {
		name   string
		server *slipwayd.Server
	}{{nameCounting, counting}, {nameNot, not}} {
		p := world.Participant{Name: c.name, Server: c.server.Server, Store: nil, Repository: c.server.Request(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))}
		l := load.Load{Call: load.Get(p.Manifest(p.Digest(w))), Workers: 8, Count: w.Requests}
		l.Warm(w.Ctx)
		full = append(full, l.Turn(w.Ctx, c.name, c.server.Server, nil, nil))
		l.Count, l.Every = w.Requests/4, time.Minute/perMinute
		paced = append(paced, l.Turn(w.Ctx, c.name, c.server.Server, nil, nil))
	}
	r := figure.Alternate(w.Ctx, w.Rounds, full...)
	before, begin := allCounted(w, counting), time.Now()
	full[0].Run()
	countedAre(w, counting, before+float64(w.Requests))
	s.Check("pulls absorbed", float64(w.Requests)/time.Since(begin).Minutes(), "1/min", figure.AtLeast(perMinute))
	s.Medians(r, nameCounting, figure.Rate)
	s.Record("counting cpu - not", r.Difference(nameCounting, nameNot, figure.CPU), "us")
	s.Check("full load: rate counting / not", r.Ratio(nameCounting, nameNot, figure.Rate), "x", figure.AtLeast(0.9))
	s.Check("full load: p50 counting / not", r.Ratio(nameCounting, nameNot, figure.P50), "x", figure.AtMost(1.1))
	r = figure.Alternate(w.Ctx, w.Rounds, paced...)
	s.Record("paced: p50 counting", r.Median(nameCounting, figure.P50), "ms")
	s.Check("paced: p50 counting / not", r.Ratio(nameCounting, nameNot, figure.P50), "x", figure.AtMost(1.05))
	s.Record("paced: p99 counting / not", r.Ratio(nameCounting, nameNot, figure.P99), "x")
	w.Profile("count", counting, full[0])
}

const metricsAccount, metricsPassword = "bench", "bench"

// metricsAccounts returns a file with the account that may read counts.
func metricsAccounts(w *world.World) string {
	hash := must.Get(bcrypt.GenerateFromPassword([]byte(metricsPassword), bcrypt.MinCost))
	return w.File("metrics-accounts", metricsAccount+":"+string(hash)+"\n")
}

// counted returns the number of pulls counted today and yesterday, since a run may span
// midnight.
func counted(w *world.World, slipway *slipwayd.Server) (sum float64) {
	for _, days := range []int{0, -1} {
		day := time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly)
		req := must.Get(http.NewRequestWithContext(w.Ctx, http.MethodGet, slipway.URL("/v1alpha2/metrics/pulls?date="+day), nil))
		req.SetBasicAuth(metricsAccount, metricsPassword)
		resp := must.Get(http.DefaultClient.Do(req))
		var found struct{ Count float64 }
		err := json.NewDecoder(resp.Body).Decode(&found)
		_ = resp.Body.Close() // read only
		if must.Do(err); resp.StatusCode != http.StatusOK {
			must.Fail("reading counts: %s", resp.Status)
		}
		sum += found.Count
	}
	return sum
}

// allCounted waits until the count no longer changes.
func allCounted(w *world.World, slipway *slipwayd.Server) float64 {
	for last := -1.0; ; w.Pause(2 * time.Second) {
		n := counted(w, slipway)
		if n == last {
			return n
		}
		last = n
	}
}

// countedAre waits for a count; a higher count is an error.
func countedAre(w *world.World, slipway *slipwayd.Server, want float64) {
	for end := time.Now().Add(2 * time.Minute); ; w.Pause(50 * time.Millisecond) {
		n := counted(w, slipway)
		if n == want {
			return
		}
		if n > want || time.Now().After(end) {
			must.Fail("%v pulls are counted, not %v", n, want)
		}
	}
}

// question matches a line of the metrics service's own benchmark.
var question = regexp.MustCompile(`(?m)^BenchmarkYear/(\w+)/date=(\S*),org=(\S*?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)

// year queries the metrics service for a year, on both engines if available.
func year(w *world.World, s *figure.Sheet) {
	cmd := exec.CommandContext(w.Ctx, "go", "test", "-run", "^$", "-bench", "Year", "-benchtime", "20x", "slipway.dev/services/metrics")
	if world.PostgresPrograms() != "" {
		cmd.Env = append(os.Environ(), "SLIPWAY_TEST_REAL=1")
	}
	out := world.Output(cmd)
	found := question.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		must.Fail("the benchmark printed\n%s", out)
	}
	for _, m := range found {
		form := map[[2]bool]string{{true, true}: "day and organisation", {true, false}: "day", {false, true}: "organisation", {false, false}: "all"}[[2]bool{m[2] != "", m[3] != ""}]
		s.Check("a year, "+form+", "+m[1], must.Get(strconv.ParseFloat(m[4], 64))/1e6, "ms", figure.AtMost(20))
	}
}
