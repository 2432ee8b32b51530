package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	nameCounting = "counting"
	nameNot      = "not counting"
	// perMinute is how many pulls a minute have to be absorbed.
	perMinute = 100_000
)

// measureCount measures what counting costs: the same pulls at two processes, of
// which one counts them; how soon a great many are counted; and questions about a
// year of 5,000 organisations.
func measureCount(w *world, s *sheet) {
	w.push(appImage)
	redis := w.redisSetting()
	s.remark = w.remarkRedis()
	counting := w.startSlipway(append(redis, "SLIPWAY_METRICS_ACCOUNTS_FILE="+w.metricsAccounts())...)
	w.costOfCounting(s, counting, w.startSlipway(append(redis, "SLIPWAY_COUNT_PULLS=false")...))
	w.year(s)
}

// costOfCounting loads both, at full speed and at the pace that has to be absorbed.
func (w *world) costOfCounting(s *sheet, counting, not *slipwayServer) {
	var full, paced []contender
	for _, c := range []struct {
		name   string
		server *slipwayServer
	}{{nameCounting, counting}, {nameNot, not}} {
		p := participant{c.name, c.server.server, nil, c.server.request(requestFor(w.up.addr, appImage, smallConfig))}
		l := load{call: get(p.manifest(p.digest(w))), workers: 8, count: w.requests}
		l.warm(w.ctx)
		full = append(full, l.turn(w.ctx, c.name, c.server.server, nil, nil))
		l.count, l.every = w.requests/4, time.Minute/perMinute
		paced = append(paced, l.turn(w.ctx, c.name, c.server.server, nil, nil))
	}
	r := alternate(w.ctx, w.rounds, full...)
	before, begin := w.allCounted(counting), time.Now()
	full[0].turn()
	w.countedAre(counting, before+float64(w.requests))
	s.hold("pulls absorbed", float64(w.requests)/time.Since(begin).Minutes(), "1/min", atLeast(perMinute))
	s.medians(r, nameCounting, rate)
	s.tell("counting cpu - not", r.difference(nameCounting, nameNot, cpu), "us")
	s.hold("full load: rate counting / not", r.ratio(nameCounting, nameNot, rate), "x", atLeast(0.9))
	s.hold("full load: p50 counting / not", r.ratio(nameCounting, nameNot, p50), "x", atMost(1.1))
	r = alternate(w.ctx, w.rounds, paced...)
	s.tell("paced: p50 counting", r.median(nameCounting, p50), "ms")
	s.hold("paced: p50 counting / not", r.ratio(nameCounting, nameNot, p50), "x", atMost(1.05))
	s.tell("paced: p99 counting / not", r.ratio(nameCounting, nameNot, p99), "x")
	w.profile("count", counting, full[0])
}

const metricsAccount, metricsPassword = "bench", "bench"

// metricsAccounts is a file with who may read counts.
func (w *world) metricsAccounts() string {
	hash := must(bcrypt.GenerateFromPassword([]byte(metricsPassword), bcrypt.MinCost))
	return w.file("metrics-accounts", metricsAccount+":"+string(hash)+"\n")
}

// counted is how many pulls were counted today and yesterday, as a run may take
// midnight.
func (w *world) counted(slipway *slipwayServer) (sum float64) {
	for _, days := range []int{0, -1} {
		day := time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly)
		req := must(http.NewRequestWithContext(w.ctx, http.MethodGet, slipway.url("/v1alpha2/metrics/pulls?date="+day), nil))
		req.SetBasicAuth(metricsAccount, metricsPassword)
		resp := must(http.DefaultClient.Do(req))
		var found struct{ Count float64 }
		err := json.NewDecoder(resp.Body).Decode(&found)
		_ = resp.Body.Close() // it was read
		if check(err); resp.StatusCode != http.StatusOK {
			fail("reading counts: %s", resp.Status)
		}
		sum += found.Count
	}
	return sum
}

// allCounted waits until nothing more is counted.
func (w *world) allCounted(slipway *slipwayServer) float64 {
	for last := -1.0; ; w.pause(2 * time.Second) {
		n := w.counted(slipway)
		if n == last {
			return n
		}
		last = n
	}
}

// countedAre waits for a number; more is an error.
func (w *world) countedAre(slipway *slipwayServer, want float64) {
	for end := time.Now().Add(2 * time.Minute); ; w.pause(50 * time.Millisecond) {
		n := w.counted(slipway)
		if n == want {
			return
		}
		if n > want || time.Now().After(end) {
			fail("%v pulls are counted, not %v", n, want)
		}
	}
}

// question is a line of the metrics room's own benchmark.
var question = regexp.MustCompile(`(?m)^BenchmarkYear/(\w+)/date=(\S*),org=(\S*?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)

// year asks the metrics room about a year, on both engines where they are there.
func (w *world) year(s *sheet) {
	cmd := exec.CommandContext(w.ctx, "go", "test", "-run", "^$", "-bench", "Year", "-benchtime", "20x", "slipway.dev/services/metrics")
	if postgresPrograms() != "" {
		cmd.Env = append(os.Environ(), "SLIPWAY_TEST_REAL=1")
	}
	out := output(cmd)
	found := question.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		fail("the benchmark printed\n%s", out)
	}
	for _, m := range found {
		form := map[[2]bool]string{{true, true}: "day and organisation", {true, false}: "day", {false, true}: "organisation", {false, false}: "all"}[[2]bool{m[2] != "", m[3] != ""}]
		s.hold("a year, "+form+", "+m[1], must(strconv.ParseFloat(m[4], 64))/1e6, "ms", atMost(20))
	}
}
