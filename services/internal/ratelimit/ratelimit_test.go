package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/kv"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
)

var hourly = ratelimit.Limit{{Count: 3, Window: time.Hour}}

func TestChargesAreKeptApart(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		l := newLimiter(t, client)
		for _, tc := range []struct {
			name, limit, caller string
			n                   int
			want                error
		}{
			{"all there is", "pulls", "ada", 3, nil},
			{"nothing left", "pulls", "ada", 1, fault.Exhausted},
			{"another caller", "pulls", "bob", 3, nil},
			{"another limit", "builds", "ada", 3, nil},
			{"a charge of nothing", "pulls", "ada", 0, nil},
			{"odd names", "pulls", "ip:2001:db8::{x}\r\n*", 3, nil},
			{"odd names, used up", "pulls", "ip:2001:db8::{x}\r\n*", 1, fault.Exhausted},
		} {
			if _, err := l.Charge(t.Context(), tc.limit, tc.caller, hourly, tc.n); !errors.Is(err, tc.want) {
				t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
			}
		}
		for range 10 {
			if q, err := l.Charge(t.Context(), "pulls", "eve", nil, 1); err != nil || q != (ratelimit.Quota{}) {
				t.Errorf("no limit at all: %v, %v", q, err)
			}
		}
		// Another process counts in the same keys.
		if _, err := newLimiter(t, client).Charge(t.Context(), "pulls", "ada", hourly, 1); !errors.Is(err, fault.Exhausted) {
			t.Errorf("another replica: %v", err)
		}
	})
}

func TestExactlyTheLimitConcurrently(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		replicas := []*ratelimit.Limiter{newLimiter(t, client), newLimiter(t, client)}
		limit := ratelimit.Limit{{Count: 50, Window: time.Hour}, {Count: 60, Window: 2 * time.Hour}}
		var allowed, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for range 5 {
					switch _, err := replicas[i%2].Charge(t.Context(), "pulls", "ada", limit, 1); {
					case err == nil:
						allowed.Add(1)
					case errors.Is(err, fault.Exhausted):
						refused.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if allowed.Load() != 50 || refused.Load() != 50 {
			t.Errorf("%d allowed, %d refused; want 50 each", allowed.Load(), refused.Load())
		}
	})
}

// TestWindowOnTheRealClock checks with the real clock that at least one window passes between
// each charge and the charge that comes as many charges later as the limit allows.
func TestWindowOnTheRealClock(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		l := newLimiter(t, client)
		rule := ratelimit.Rule{Count: 5, Window: 700 * time.Millisecond}
		type span struct{ before, after time.Time }
		var allowed []span
		for begin := time.Now(); time.Since(begin) < 3*rule.Window; {
			s := span{before: time.Now()}
			q, err := l.Charge(t.Context(), "pulls", "ada", ratelimit.Limit{rule}, 1)
			s.after = time.Now()
			if err == nil && q.Limit == rule.Count {
				allowed = append(allowed, s)
			} else if !errors.Is(err, fault.Exhausted) {
				t.Fatalf("got %v, %v", q, err)
			}
		}
		if len(allowed) <= rule.Count {
			t.Fatalf("%d were allowed: nothing was given back", len(allowed))
		}
		for i := range allowed[rule.Count:] {
			if d := allowed[i+rule.Count].after.Sub(allowed[i].before); d < rule.Window {
				t.Fatalf("charges %d to %d lie within %s", i, i+rule.Count, d)
			}
		}
	})
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	l, mini := clocked(t)
	mini.SetTime(start.Add(time.Millisecond)) // so that times are not whole seconds
	for range 3 {
		if _, err := l.Charge(t.Context(), "pulls", "ada", hourly, 1); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.Charge(t.Context(), "pulls", "ada", hourly, 1)
	e, ok := fault.As(err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	want := &fault.Error{
		Kind: fault.Exhausted, Public: "Too many pulls: the limit is 3 in 1h; try again in 1h", RetryAfter: time.Hour,
		Meta: map[string]string{ratelimit.MetaLimit: "3", ratelimit.MetaRemaining: "0", ratelimit.MetaReset: "3660"},
	}
	if e.Kind != want.Kind || e.Public != want.Public || e.RetryAfter != want.RetryAfter {
		t.Errorf("got %v after %s", e, e.RetryAfter)
	}
	if diff := cmp.Diff(want.Meta, e.Meta); diff != "" {
		t.Error(diff)
	}
}

func TestQuotaMeta(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		in    ratelimit.Quota
		reset string
	}{
		{"whole seconds", ratelimit.Quota{Limit: 5, Reset: 2 * time.Second}, "2"},
		{"a little more", ratelimit.Quota{Limit: 5, Reset: 2001 * time.Millisecond}, "3"},
		{"hardly anything", ratelimit.Quota{Limit: 5, Reset: time.Millisecond}, "1"},
	} {
		if got := maps.Collect(tc.in.All())[ratelimit.MetaReset]; got != tc.reset {
			t.Errorf("%s: reset %q, want %q", tc.name, got, tc.reset)
		}
	}
	if got := maps.Collect(ratelimit.Quota{}.All()); len(got) != 0 {
		t.Errorf("nothing is known, yet it says %v", got)
	}
}

func TestRefusalsAreMeasured(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	l := ratelimit.New(testkit.Redis(t), reg, testkit.Log(t))
	for range 5 {
		_, _ = l.Charge(t.Context(), "pulls", "ada", hourly, 1)
	}
	if got := count(t, reg, "slipway_ratelimit_refused_total"); got != 2 {
		t.Errorf("%v refusals are counted, want 2", got)
	}
}

// broken dials a Redis that is not running until it is repaired.
type broken struct {
	mended atomic.Bool
	dial   kv.Dialer
}

func (b *broken) client(t testing.TB) redis.UniversalClient {
	t.Helper()
	c := kv.Local(func() (net.Conn, error) {
		if !b.mended.Load() {
			return nil, errors.New("no Redis")
		}
		return b.dial()
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestOpenWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	_, mini := clocked(t)
	b := &broken{dial: mini.Dial}
	reg := prometheus.NewRegistry()
	var log bytes.Buffer
	l := ratelimit.New(b.client(t), reg, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 10 {
		if q, err := l.Charge(t.Context(), "pulls", "ada", hourly, 1); err != nil || q != (ratelimit.Quota{}) {
			t.Fatalf("charge %d: %v, %v; want it open, and nothing known", i, q, err)
		}
	}
	if got := count(t, reg, "slipway_ratelimit_open_total"); got != 10 {
		t.Errorf("%v are counted as let through, want 10", got)
	}
	b.mended.Store(true)
	for q := (ratelimit.Quota{}); q.Limit == 0; {
		var err error
		if q, err = l.Charge(t.Context(), "pulls", "ada", hourly, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"Redis is unavailable; limits are not enforced", "Redis is available again; limits are enforced"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q is logged %d times, want once", line, n)
		}
	}
}

func count(t testing.TB, reg prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestCancelledCallIsRejected(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	l := ratelimit.New(testkit.Redis(t), reg, testkit.Log(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Charge(ctx, "pulls", "ada", hourly, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := count(t, reg, "slipway_ratelimit_open_total"); got != 0 {
		t.Errorf("%v are counted as let through", got)
	}
	if q, err := l.Charge(t.Context(), "pulls", "ada", hourly, 1); err != nil || q.Remaining != 2 {
		t.Errorf("the next one: %v, %v; want it counted", q, err)
	}
}

func TestOpenWhenRedisIsKilled(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a redis-server: set SLIPWAY_TEST_REAL")
	}
	server := testkit.StartRedis(t)
	client, err := kv.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	l := newLimiter(t, client)
	charge := func() ratelimit.Quota {
		q, err := l.Charge(t.Context(), "pulls", "ada", ratelimit.Limit{{Count: 1_000_000, Window: time.Hour}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	if charge().Limit == 0 {
		t.Error("not counted")
	}
	server.Kill()
	if q := charge(); q.Limit != 0 {
		t.Errorf("counted %v by a dead server", q)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for charge().Limit == 0 { // the script is loaded again as well
	}
}

func BenchmarkCharge(b *testing.B) {
	l := newLimiter(b, testkit.Redis(b))
	limit := ratelimit.Limit{{Count: 1 << 40, Window: time.Minute}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Charge(b.Context(), "pulls", "ada", limit, 1); err != nil {
			b.Fatal(err)
		}
	}
}
