package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/worstcase"
)

// The memory limit of the program, and the largest memory use that the test accepts, with
// memory_limit and without.
const (
	budget        = 512 << 20
	unlimitedPeak = 1 << 30
)

// budgetTime is the limit of the processor time of nine requests: several times what the most
// expensive request takes.
const budgetTime = 15 * time.Second

// TestMemoryBudget sends the most expensive request that each public call accepts, once and
// then eight times concurrently, with memory_limit and without. The program must stay within
// its memory budget, return only 4xx and 503, and serve other clients meanwhile.
func TestMemoryBudget(t *testing.T) {
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64"))
	channels := condaChannels(t)
	bodies := worstcase.Bodies()
	for _, limit := range []int64{budget, 0} {
		t.Run(fmt.Sprintf("%d MiB", limit>>20), func(t *testing.T) {
			p := oneProcess(t, common(t, []string{up.Host}, settings{
				thisProgram: plain(), "memory_limit": fmt.Sprint(limit), "limit_requests_anonymous": "0", "conda_channel_alias": channels,
				"trusted_proxies": "127.0.0.1", "limit_searches_anonymous": "0", "limit_pulls_anonymous": "0",
			}))
			target := p.submit(map[string]any{"containerImage": image})
			others := []string{"/service-info", "/v1alpha1/conda/packages?q=numpy&channel=conda-forge", strings.TrimPrefix(manifest(target), p.url)}
			quiet := p.measure(t, others, func() { time.Sleep(3 * time.Second) })
			t.Logf("quiet: %v", quiet)
			most := limit
			if limit == 0 {
				most = unlimitedPeak
			}
			for name, w := range bodies {
				before := p.procs[0].processor()
				loud := p.measure(t, others, func() {
					p.attack(t, name, w.Path, w.JSON, 1)
					p.attack(t, name, w.Path, w.JSON, 8)
				})
				took := p.procs[0].processor() - before
				t.Logf("%s: %s of processor time, peak %d MiB, %v", name, took.Round(time.Millisecond), p.procs[0].peak()>>20, loud)
				if took > budgetTime {
					t.Errorf("%s took %s of processor time", name, took)
				}
				if peak := p.procs[0].peak(); peak > most {
					t.Errorf("after %s the program has used %d MiB, want at most %d", name, peak>>20, most>>20)
				}
			}
		})
	}
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
