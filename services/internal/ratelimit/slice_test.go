package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/kv"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
)

var (
	thousand = ratelimit.Limit{{Count: 1000, Window: time.Hour}}
	two      = ratelimit.Limit{{Count: 5000, Window: time.Hour}, {Count: 1000, Window: 2 * time.Hour}}
)

// hand is a monotonic clock that the test controls.
type hand struct{ at atomic.Int64 }

func (h *hand) now() time.Duration      { return time.Duration(h.at.Load()) }
func (h *hand) forward(d time.Duration) { h.at.Add(int64(d)) }

// replicas returns Limiters of one Redis that share a clock. While it stands still, no
// slice ends.
func replicas(t testing.TB, n int, client redis.UniversalClient) ([]*ratelimit.Limiter, *hand) {
	t.Helper()
	h := &hand{}
	all := make([]*ratelimit.Limiter, n)
	for i := range all {
		all[i] = newLimiter(t, client)
		all[i].SetClock(h.now)
		t.Cleanup(all[i].Close)
	}
	return all, h
}

// charge charges 1 at a time until a charge is rejected, or n times, and returns how many
// charges were allowed.
func charge(t testing.TB, l *ratelimit.Limiter, caller string, limit ratelimit.Limit, n int) int {
	t.Helper()
	for i := range n {
		q, err := l.Charge(t.Context(), "pulls", caller, limit, 1)
		if errors.Is(err, fault.Exhausted) {
			return i
		}
		if err != nil || q.Limit == 0 {
			t.Errorf("charge %d: %v, %v", i, q, err)
			return i
		}
	}
	return n
}

func held(all ...*ratelimit.Limiter) int {
	sum := 0
	for _, l := range all {
		n, _ := l.Held()
		sum += n
	}
	return sum
}

// callConcurrently charges with all replicas concurrently until each was rejected.
func callConcurrently(t *testing.T, all []*ratelimit.Limiter, limit ratelimit.Limit) int {
	t.Helper()
	var sum atomic.Int64
	var wg sync.WaitGroup
	for _, l := range all {
		for range 4 {
			wg.Go(func() { sum.Add(int64(charge(t, l, "ada", limit, 1<<20))) })
		}
	}
	wg.Wait()
	return int(sum.Load())
}

func TestEightReplicasReachTheLimitAndNoMore(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		for _, limit := range []ratelimit.Limit{thousand, two} {
			all, h := replicas(t, 8, client)
			all = append(all, all[0])
			got := 0
			for round := 0; got < 1000 && round < 10; round++ {
				got += callConcurrently(t, all, limit)
				h.forward(2 * time.Second) // all slices have ended
				for _, l := range all {
					l.Sweep()
				}
			}
			if got != 1000 || callConcurrently(t, all, limit) != 0 || held(all...) != 0 {
				t.Errorf("%d of 1000 were let in, %d are held", got, held(all...))
			}
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSliceOfLostReplicaExpires(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		all, _ := replicas(t, 2, client)
		got, lost := busy(t, all[0])
		got += charge(t, all[1], "ada", thousand, 1<<20)
		if got != 1000-lost {
			t.Errorf("%d were let in and %d lost of 1000", got, lost)
		}
	})
}

// busy makes a replica charge until it holds a slice, and returns how many it charged and
// holds.
func busy(t testing.TB, l *ratelimit.Limiter) (charged, holds int) {
	t.Helper()
	for charged < 500 && held(l) < 10 {
		charged += charge(t, l, "ada", thousand, 1)
	}
	if held(l) < 10 {
		t.Fatalf("it holds %d after %d charges", held(l), charged)
	}
	return charged, held(l)
}

func TestSlicesAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		back func(*ratelimit.Limiter, *hand)
	}{
		{"when it is closed", func(l *ratelimit.Limiter, _ *hand) { l.Close() }},
		{"when they are over", func(l *ratelimit.Limiter, h *hand) { h.forward(time.Second); l.Sweep() }},
		{"once", func(l *ratelimit.Limiter, h *hand) {
			h.forward(time.Minute)
			l.Sweep()
			l.Sweep()
			l.Close()
			l.Close()
		}},
		{"with the next charge", func(l *ratelimit.Limiter, h *hand) {
			h.forward(time.Second)
			if _, err := l.Charge(t.Context(), "pulls", "ada", thousand, 5000); !errors.Is(err, fault.Exhausted) {
				t.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
				all, h := replicas(t, 2, client)
				charged, _ := busy(t, all[0])
				tc.back(all[0], h)
				if held(all[0]) != 0 {
					t.Errorf("it still holds %d", held(all[0]))
				}
				q, err := all[1].Charge(t.Context(), "pulls", "ada", thousand, 1000-charged)
				if err != nil || q.Remaining != 0 {
					t.Errorf("another replica after %d: %v, %v", charged, q, err)
				}
			})
		})
	}
}

// TestRepeatedRefundAppliesOnce checks that a request which is repeated because its
// response was lost returns nothing twice.
func TestRepeatedRefundAppliesOnce(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(*ratelimit.Limiter){
		"when it is closed": (*ratelimit.Limiter).Close,
		"with a charge": func(l *ratelimit.Limiter) {
			if _, err := l.Charge(t.Context(), "pulls", "ada", thousand, 5000); !errors.Is(err, fault.Exhausted) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, again := testkit.Redis(t), &repeat{}
			client.AddHook(again)
			all, _ := replicas(t, 2, client)
			got, _ := busy(t, all[0])
			again.on.Store(true)
			back(all[0])
			again.on.Store(false)
			if got += charge(t, all[1], "ada", thousand, 1<<20); got != 1000 {
				t.Errorf("%d were let in", got)
			}
		})
	}
}

// repeat sends every command twice while it is on.
type repeat struct{ on atomic.Bool }

func (*repeat) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *repeat) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.on.Load() {
			_ = next(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}

func (r *repeat) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if r.on.Load() {
			_ = next(ctx, cmds)
		}
		return next(ctx, cmds)
	}
}

// TestRedisClockJumps lets Redis jump in time while slices are held: within a window the limit
// is enforced, and after a longer jump a new window begins, to which slices of the old window
// return nothing.
func TestRedisClockJumps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		jump  time.Duration
		fresh int // number of new windows
	}{
		{"back", -30 * time.Minute, 0},
		{"far back", -100 * time.Hour, 0},
		{"forth", 30 * time.Minute, 0},
		{"far forth", 3 * time.Hour, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, mini := clocked(t)
			client := kv.Local(mini.Dial)
			t.Cleanup(func() { _ = client.Close() })
			all, h := replicas(t, 2, client)
			got, rest := busy(t, all[0])
			mini.SetTime(start.Add(tc.jump))
			got += charge(t, all[0], "ada", thousand, rest)
			got += charge(t, all[1], "ada", thousand, 300)
			h.forward(time.Second)
			all[0].Sweep()
			all[1].Sweep()
			for _, l := range all {
				got += charge(t, l, "ada", thousand, 1<<20)
			}
			if fresh := got - 1000; tc.fresh == 0 && fresh > 0 || fresh > tc.fresh {
				t.Errorf("%d were let in", got)
			}
		})
	}
}

// TestASliceEndsWithItsBucket checks that a slice ends with its bucket, which expires a window
// later: no window sees more than the limit.
func TestASliceEndsWithItsBucket(t *testing.T) {
	t.Parallel()
	_, mini := clocked(t)
	client := kv.Local(mini.Dial)
	t.Cleanup(func() { _ = client.Close() })
	all, h := replicas(t, 1, client)
	mini.SetTime(start.Add(59*time.Second + 700*time.Millisecond)) // the bucket of an hour is a minute
	charged, _ := busy(t, all[0])
	h.forward(299 * time.Millisecond)
	mini.SetTime(start.Add(time.Minute))
	before := held(all[0])
	charged += charge(t, all[0], "ada", thousand, 1)
	keys := client.HGetAll(t.Context(), "limit:{ada}:pulls:3600000").Val()
	if keys["30000001"] == "" {
		t.Errorf("after its bucket a slice of %d is spent: %d charged, %v", before, charged, keys)
	}
}

func TestFirstChargeAndSmallLimitsTakeNoSlice(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		limit ratelimit.Limit
		n     int
	}{
		{"the first", thousand, 1},
		{"a small limit", ratelimit.Limit{{Count: 250, Window: time.Hour}}, 100},
		{"a short window", ratelimit.Limit{{Count: 100_000, Window: time.Second}}, 100},
		{"one rule of two", ratelimit.Limit{thousand[0], {Count: 20, Window: time.Minute}}, 15},
		{"little left", ratelimit.Limit{{Count: 256, Window: time.Hour}}, 256},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			all, _ := replicas(t, 1, testkit.Redis(t))
			for left := tc.n; left > 0; left-- {
				q, err := all[0].Charge(t.Context(), "pulls", "ada", tc.limit, 1)
				if err != nil {
					t.Fatal(err)
				}
				if n := held(all[0]); n > q.Remaining/32 || n > 0 && tc.name != "little left" {
					t.Errorf("with %d left it holds %d", q.Remaining, n)
				}
			}
		})
	}
}

// TestWaitingChargesShareASlice lets many charges wait for the first slice, which is too small
// for them. They share the next one instead of calling Redis one by one.
func TestWaitingChargesShareASlice(t *testing.T) {
	t.Parallel()
	const waiting = 500
	client, calls := testkit.Redis(t), &gate{open: make(chan struct{})}
	all, _ := replicas(t, 1, client)
	limit := ratelimit.Limit{{Count: 100_000, Window: time.Hour}}
	charge(t, all[0], "ada", limit, 1) // counted alone
	client.AddHook(calls)
	var done sync.WaitGroup
	for range waiting + 1 {
		done.Go(func() { charge(t, all[0], "ada", limit, 1) })
	}
	testkit.Until(t, "all charges to wait", func() error {
		if n := all[0].Awaited(); n < waiting {
			return fmt.Errorf("%d of %d wait", n, waiting)
		}
		return nil
	})
	close(calls.open)
	done.Wait()
	if n := calls.scripts.Load(); n > 2 {
		t.Errorf("%d charges called Redis %d times", waiting+1, n)
	}
	q, err := all[0].Charge(t.Context(), "pulls", "ada", limit, 1)
	if err != nil || q.Remaining != 100_000-waiting-3 {
		t.Errorf("%v, %v after %d charges", q, err, waiting+2)
	}
}

// TestWaitingChargesFailTogether lets many charges wait for a slice that Redis does not grant,
// because it fails: none of them calls Redis again, which could take another timeout.
func TestWaitingChargesFailTogether(t *testing.T) {
	t.Parallel()
	const waiting = 100
	client, calls := testkit.Redis(t), &gate{open: make(chan struct{}), err: errors.New("i/o timeout")}
	all, _ := replicas(t, 1, client)
	limit := ratelimit.Limit{{Count: 100_000, Window: time.Hour}}
	charge(t, all[0], "ada", limit, 1) // counted alone
	client.AddHook(calls)
	var done sync.WaitGroup
	for range waiting + 1 {
		done.Go(func() {
			if q, err := all[0].Charge(t.Context(), "pulls", "ada", limit, 1); err != nil || q.Limit != 0 {
				t.Errorf("got %v, %v; want it open", q, err)
			}
		})
	}
	testkit.Until(t, "all charges to wait", func() error {
		if n := all[0].Awaited(); n < waiting {
			return fmt.Errorf("%d of %d wait", n, waiting)
		}
		return nil
	})
	close(calls.open)
	done.Wait()
	if n := calls.scripts.Load(); n != 1 {
		t.Errorf("Redis was called %d times while it failed", n)
	}
}

// A gate delays all commands until it is open, and counts the scripts. Then commands fail with err,
// if it is not nil.
type gate struct {
	open    chan struct{}
	err     error
	scripts atomic.Int64
}

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		<-g.open
		if cmd.Name() == "evalsha" {
			g.scripts.Add(1)
		}
		if g.err != nil {
			return g.err
		}
		return next(ctx, cmd)
	}
}

func (*gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestQuotaFromASlice(t *testing.T) {
	t.Parallel()
	all, _ := replicas(t, 1, testkit.Redis(t))
	for i := range 1000 {
		q, err := all[0].Charge(t.Context(), "pulls", "ada", thousand, 1)
		if err != nil || q.Limit != 1000 || q.Remaining != 999-i || q.Reset <= 59*time.Minute || q.Reset > 61*time.Minute {
			t.Fatalf("charge %d: %v, %v", i, q, err)
		}
	}
	if _, err := all[0].Charge(t.Context(), "pulls", "ada", thousand, 1); !errors.Is(err, fault.Exhausted) {
		t.Error(err)
	}
}

func TestRefundBesideASlice(t *testing.T) {
	t.Parallel()
	all, _ := replicas(t, 1, testkit.Redis(t))
	charged, _ := busy(t, all[0])
	if _, err := all[0].Charge(t.Context(), "pulls", "ada", thousand, -1); err != nil {
		t.Fatal(err)
	}
	if got := charged - 1 + charge(t, all[0], "ada", thousand, 1<<20); got != 1000 {
		t.Errorf("%d were let in", got)
	}
}

func TestCallersHeldAreBounded(t *testing.T) {
	t.Parallel()
	all, h := replicas(t, 1, testkit.Redis(t))
	for i := range limits.SlicesHeld + 10 {
		charge(t, all[0], time.Duration(i).String(), thousand, 1)
	}
	if _, n := all[0].Held(); n != limits.SlicesHeld {
		t.Errorf("%d callers are held", n)
	}
	h.forward(time.Minute)
	all[0].Sweep()
	if _, n := all[0].Held(); n != 0 {
		t.Errorf("%d callers are held after a minute", n)
	}
}

func TestSlicesWithoutRedis(t *testing.T) {
	t.Parallel()
	_, mini := clocked(t)
	b := &broken{dial: mini.Dial}
	b.mended.Store(true)
	client := b.client(t)
	reg := prometheus.NewRegistry()
	l, h := ratelimit.New(client, reg, testkit.Log(t)), &hand{}
	l.SetClock(h.now)
	charged, rest := busy(t, l)
	mini.SetError("LOADING")
	charged += charge(t, l, "ada", thousand, rest) // the held slice is still valid
	if q, err := l.Charge(t.Context(), "pulls", "ada", thousand, 1); err != nil || q.Limit != 0 {
		t.Errorf("got %v, %v; want it open", q, err)
	}
	h.forward(time.Second)
	l.Sweep()
	l.Close()
	mini.SetError("")
	if got := charged + charge(t, newLimiter(t, client), "ada", thousand, 1<<20); got != 1000 {
		t.Errorf("%d were let in", got)
	}
}

// TestChangedLimit changes the limit of a busy caller, who gets slices of the new one.
func TestChangedLimit(t *testing.T) {
	t.Parallel()
	all, h := replicas(t, 1, testkit.Redis(t))
	l := all[0]
	thousand, more := ratelimit.Limit{{Count: 1000, Window: time.Hour}}, ratelimit.Limit{{Count: 2000, Window: time.Hour}}
	if charged := charge(t, l, "ada", thousand, 100); charged != 100 || held(l) == 0 {
		t.Fatalf("%d charges, %d in the slice", charged, held(l))
	}
	for range 100 {
		h.forward(time.Millisecond)
		charge(t, l, "ada", more, 1)
	}
	if held(l) == 0 {
		t.Error("there is no slice of the new limit")
	}
	if charged := charge(t, l, "ada", more, 3000); charged > 1800 || charged < 1700 {
		t.Errorf("%d more charges are allowed", charged)
	}
}
