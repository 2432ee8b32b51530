package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// countSection measures what counting costs: the same pulls at two processes, of
// which one counts them; how soon a great many are counted; and questions about a
// year of 5,000 organisations.
type countSection struct{}

func (countSection) name() string { return "count" }

const (
	nameCounting = "counting"
	nameNot      = "not counting"
	// perMinute is how many pulls a minute have to be absorbed.
	perMinute = 100_000
)

func (countSection) measure(ctx context.Context, w *world, s *sheet) error {
	if err := w.push(ctx, appImage); err != nil {
		return err
	}
	redis, err := w.redisSetting(ctx)
	if err != nil {
		return err
	}
	s.remark = w.remarkRedis()
	accounts, err := w.metricsAccounts()
	if err != nil {
		return err
	}
	counting, err := w.startSlipway(ctx, append(redis, "SLIPWAY_METRICS_ACCOUNTS_FILE="+accounts)...)
	if err != nil {
		return err
	}
	defer w.fleet.stop(counting)
	not, err := w.startSlipway(ctx, append(redis, "SLIPWAY_COUNT_PULLS=false")...)
	if err != nil {
		return err
	}
	defer w.fleet.stop(not)
	if err := w.costOfCounting(ctx, s, counting, not); err != nil {
		return err
	}
	return w.year(ctx, s)
}

// costOfCounting loads both, at full speed and at the pace that has to be absorbed.
func (w *world) costOfCounting(ctx context.Context, s *sheet, counting, not *server) error {
	var full, paced []contender
	for _, c := range []struct {
		name   string
		server *server
	}{{nameCounting, counting}, {nameNot, not}} {
		image, err := request(ctx, c.server, requestFor(w.up, appImage, smallConfig))
		if err != nil {
			return err
		}
		digest, _, err := image.child(ctx)
		if err != nil {
			return err
		}
		t := image.manifest(digest)
		l := load{host: t.host, call: t.get(), workers: 8, count: w.requests}
		if err := warm(ctx, l); err != nil {
			return err
		}
		slow := l
		slow.count, slow.every = w.requests/4, time.Minute/perMinute
		turn := func(l load) func(context.Context) (sample, error) {
			return func(ctx context.Context) (sample, error) { return l.metered(ctx, c.server, nil, nil) }
		}
		full, paced = append(full, contender{c.name, turn(l)}), append(paced, contender{c.name, turn(slow)})
	}
	r, err := alternate(ctx, w.rounds, full)
	if err != nil {
		return err
	}
	before, err := allCounted(ctx, counting)
	if err != nil {
		return err
	}
	begin := time.Now()
	if _, err := full[0].turn(ctx); err != nil {
		return err
	}
	if err := countedAre(ctx, counting, before+float64(w.requests)); err != nil {
		return err
	}
	s.hold("pulls absorbed", float64(w.requests)/time.Since(begin).Minutes(), "1/min", atLeast(perMinute))
	s.tell("counting rate", r.median(nameCounting, rate), "1/s")
	s.tell("counting cpu - not", r.difference(nameCounting, nameNot, cpu)*1e6, "us")
	s.hold("full load: rate counting / not", r.ratio(nameCounting, nameNot, rate), "x", atLeast(0.9))
	s.hold("full load: p50 counting / not", r.ratio(nameCounting, nameNot, p50), "x", atMost(1.1))
	if r, err = alternate(ctx, w.rounds, paced); err != nil {
		return err
	}
	s.tell("paced: p50 counting", r.median(nameCounting, p50)*1000, "ms")
	s.hold("paced: p50 counting / not", r.ratio(nameCounting, nameNot, p50), "x", atMost(1.05))
	s.tell("paced: p99 counting / not", r.ratio(nameCounting, nameNot, p99), "x")
	return w.profile(ctx, "count", counting, full[0])
}

const metricsAccount, metricsPassword = "bench", "bench"

// metricsAccounts is a file with who may read counts.
func (w *world) metricsAccounts() (string, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(metricsPassword), bcrypt.MinCost)
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.dir, "metrics-accounts")
	return path, os.WriteFile(path, []byte(metricsAccount+":"+string(hash)+"\n"), 0o600)
}

// counted is how many pulls were counted today and yesterday, as a run may take
// midnight.
func counted(ctx context.Context, slipway *server) (sum float64, err error) {
	for _, days := range []int{0, -1} {
		day := time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+slipway.addr+"/v1alpha2/metrics/pulls?date="+day, nil)
		if err != nil {
			return 0, err
		}
		req.SetBasicAuth(metricsAccount, metricsPassword)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		raw, err := io.ReadAll(resp.Body)
		var answer struct{ Count float64 }
		if err = errors.Join(err, resp.Body.Close()); err == nil {
			err = json.Unmarshal(raw, &answer)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("reading counts: %d %s: %w", resp.StatusCode, raw, err)
		}
		sum += answer.Count
	}
	return sum, nil
}

// allCounted waits until nothing more is counted.
func allCounted(ctx context.Context, slipway *server) (float64, error) {
	for last := -1.0; ; time.Sleep(2 * time.Second) {
		n, err := counted(ctx, slipway)
		if err != nil || n == last {
			return n, err
		}
		last = n
	}
}

// countedAre waits for a number; more is an error.
func countedAre(ctx context.Context, slipway *server, want float64) error {
	for end := time.Now().Add(2 * time.Minute); ; {
		n, err := counted(ctx, slipway)
		switch {
		case err != nil:
			return err
		case n == want:
			return nil
		case n > want || time.Now().After(end):
			return fmt.Errorf("%v pulls are counted, not %v", n, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// question is a line of the metrics room's own benchmark.
var question = regexp.MustCompile(`(?m)^BenchmarkYear/(\w+)/date=(\S*),org=(\S*?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)

// year asks the metrics room about a year, on both engines where they are there.
func (w *world) year(ctx context.Context, s *sheet) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "Year", "-benchtime", "20x", "slipway.dev/services/metrics")
	if len(postgresPrograms()) > 0 {
		cmd.Env = append(os.Environ(), "SLIPWAY_TEST_REAL=1")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("asking about a year: %w\n%s", err, out)
	}
	found := question.FindAllSubmatch(out, -1)
	if len(found) == 0 {
		return fmt.Errorf("the benchmark printed\n%s", out)
	}
	for _, m := range found {
		ns, err := strconv.ParseFloat(string(m[4]), 64)
		if err != nil {
			return err
		}
		form := "all"
		switch {
		case len(m[2]) > 0 && len(m[3]) > 0:
			form = "day and organisation"
		case len(m[2]) > 0:
			form = "day"
		case len(m[3]) > 0:
			form = "organisation"
		}
		s.hold("a year, "+form+", "+string(m[1]), ns/1e6, "ms", atMost(20))
	}
	return nil
}

// postgresPrograms are the servers that Debian installs.
func postgresPrograms() []string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	return found
}
