package e2e

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/worstcase"
)

// The memory limit of the program, and the largest memory use that the test accepts, with
// memory_limit and without.
const (
	budget        = 512 << 20
	unlimitedPeak = 1 << 30
)

// slowdown is how many times as long the requests of others may take beside an attack, at the
// 99th percentile. The attackers run on the same processors as the program, so the comparison is
// with a quiet program whose processors other programs keep busy. A quiet time below quietest
// counts as quietest, which is a few time slices of the kernel's scheduler.
const (
	slowdown = 4
	quietest = 15 * time.Millisecond
)

// budgetWork is the limit of the processor time of nine requests, as a multiple of the time to
// uncompress and hash a whole layer bomb on this machine. Nine of the most expensive requests
// take about twice that.
const budgetWork = 6

// TestMemoryBudget sends the most expensive request that each public call accepts, once and
// then eight times concurrently, with memory_limit and without. The program must stay within
// its memory budget, return only 4xx and 503, and serve other clients almost as fast as when it is
// quiet.
func TestMemoryBudget(t *testing.T) {
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64"))
	channels := condaChannels(t)
	bodies, most := worstcase.Bodies(), budgetWork*workOfBomb(t)
	for _, limit := range []int64{budget, 0} {
		t.Run(fmt.Sprintf("%d MiB", limit>>20), func(t *testing.T) {
			p := oneProcess(t, common(t, []string{up.Host}, settings{
				thisProgram: plain(), "memory_limit": fmt.Sprint(limit), "limit_requests_anonymous": "0", "conda_channel_alias": channels,
				"trusted_proxies": "127.0.0.1", "limit_searches_anonymous": "0", "limit_pulls_anonymous": "0",
			}))
			target := p.submit(map[string]any{"containerImage": image})
			others := []string{"/service-info", "/v1alpha1/conda/packages?q=numpy&channel=conda-forge", strings.TrimPrefix(manifest(target), p.url)}
			quiet := p.quiet(t, others)
			for _, name := range slices.Sorted(maps.Keys(bodies)) {
				before := p.procs[0].processor()
				slow := p.slowedBy(t, name, bodies[name], others, quiet)
				took := p.procs[0].processor() - before
				t.Logf("%s took %s of processor time", name, took)
				if took > most {
					t.Errorf("%s took %s of processor time, want at most %s", name, took, most)
				}
				// Another program may be the cause, but not three times in a row.
				for again := 0; slow != "" && again < 2; again++ {
					t.Logf("%s; once more", slow)
					quiet = p.quiet(t, others)
					slow = p.slowedBy(t, name, bodies[name], others, quiet)
				}
				if slow != "" {
					t.Error(slow)
				}
				allowed := limit
				if limit == 0 {
					allowed = unlimitedPeak
				}
				if peak := p.procs[0].peak(); peak > allowed {
					t.Errorf("after %s the program has used %d MiB, want at most %d", name, peak>>20, allowed>>20)
				}
			}
			t.Logf("the peak is %d MiB", p.procs[0].peak()>>20)
		})
	}
}

// workOfBomb returns the processor time to uncompress and hash a layer bomb.
func workOfBomb(t *testing.T) time.Duration {
	t.Helper()
	var layer struct{ Location string }
	if err := json.Unmarshal([]byte(worstcase.LayerBomb()), &layer); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(strings.TrimPrefix(layer.Location, "data:"))))
	if err != nil {
		t.Fatal(err)
	}
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(sha256.New(), z); err != nil {
		t.Fatal(err)
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	took := time.Duration(after.Utime.Nano() - before.Utime.Nano())
	t.Logf("a bomb takes %s of processor time", took)
	return took
}

// quiet measures the requests of others for some seconds while no one else calls the program,
// and other programs use the processors.
func (p *program) quiet(t *testing.T, others []string) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for range runtime.NumCPU() {
		busy.Go(func() { _ = exec.CommandContext(ctx, "sh", "-c", "while :; do :; done").Run() })
	}
	p99 := p.measure(t, others, func() { time.Sleep(3 * time.Second) })
	cancel()
	busy.Wait()
	t.Logf("quiet: %v", p99)
	return p99
}

// slowedBy attacks with a body, once and then eight times concurrently, and returns a message
// if the requests of others took too many times as long as quiet; "" if not.
func (p *program) slowedBy(t *testing.T, name string, body worstcase.Body, others []string, quiet []time.Duration) string {
	t.Helper()
	loud := p.measure(t, others, func() {
		p.attack(t, name, body.Path, body.JSON, 1)
		p.attack(t, name, body.Path, body.JSON, 8)
	})
	t.Logf("%s: %v", name, loud)
	for i, path := range others {
		if most := slowdown * max(quiet[i], quietest); loud[i] > most {
			return fmt.Sprintf("beside %s, %s takes %s, want at most %s", name, path, loud[i], most)
		}
	}
	return ""
}

// attack sends a body n times concurrently, each time from another address.
func (p *program) attack(t *testing.T, name, path, body string, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			// The server may reject it before it is sent completely.
			status := p.sendFrom(t, fmt.Sprintf("192.0.%d.1", i), path, body, "", false)
			if status != 0 && status != http.StatusServiceUnavailable && status/100 != 4 {
				t.Errorf("%s: returned %d", name, status)
			}
		})
	}
	all.Wait()
}

// measure requests some paths repeatedly while f runs, and returns the 99th percentiles of
// their response times. Each response must be 200.
func (p *program) measure(t *testing.T, paths []string, f func()) (p99 []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	p99 = make([]time.Duration, len(paths))
	for i, path := range paths {
		all.Go(func() {
			var took []time.Duration
			for ctx.Err() == nil {
				begun := time.Now()
				if r := request(t, http.MethodGet, p.url+path, nil, "X-Forwarded-For", "198.51.100.1"); r.status != http.StatusOK {
					t.Errorf("another client got %d for %s: %.200s", r.status, path, r.body)
					return
				}
				took = append(took, time.Since(begun))
				time.Sleep(10 * time.Millisecond)
			}
			slices.Sort(took)
			p99[i] = took[len(took)*99/100].Round(100 * time.Microsecond)
		})
	}
	f()
	cancel()
	all.Wait()
	return p99
}
