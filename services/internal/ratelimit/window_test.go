package ratelimit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/kv"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
)

// start is a whole number of buckets since the epoch, for every window below.
var start = time.Unix(1_800_000_000, 0)

// clocked returns a Limiter on an embedded Redis whose clock stands still.
func clocked(t testing.TB) (*ratelimit.Limiter, *miniredis.Miniredis) {
	t.Helper()
	mini := miniredis.NewMiniRedis()
	mini.SetTime(start)
	client := kv.Local(mini.Dial)
	t.Cleanup(func() { _ = client.Close(); mini.Close() })
	return newLimiter(t, client), mini
}

func newLimiter(t testing.TB, client redis.UniversalClient) *ratelimit.Limiter {
	t.Helper()
	return ratelimit.New(client, prometheus.NewRegistry(), testkit.Log(t))
}

// step is a charge at a time after start, and the resulting quota.
type step struct {
	at        time.Duration
	n         int
	allowed   bool
	remaining int
	reset     time.Duration
}

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		rule  ratelimit.Rule
		steps []step
	}{
		{"one by one", ratelimit.Rule{Count: 3, Window: time.Minute}, []step{
			{0, 1, true, 2, 61 * time.Second},
			{0, 1, true, 1, 61 * time.Second},
			{0, 1, true, 0, 61 * time.Second},
			{0, 1, false, 0, 61 * time.Second},
			{60*time.Second + 999*time.Millisecond, 1, false, 0, time.Millisecond},
			{61 * time.Second, 1, true, 2, 61 * time.Second},
		}},
		{"it slides", ratelimit.Rule{Count: 2, Window: time.Minute}, []step{
			{0, 1, true, 1, 61 * time.Second},
			{30 * time.Second, 1, true, 0, 31 * time.Second},
			{60 * time.Second, 1, false, 0, time.Second},
			{61 * time.Second, 1, true, 0, 30 * time.Second}, // only the first has expired
			{61 * time.Second, 1, false, 0, 30 * time.Second},
			{91 * time.Second, 1, true, 0, 31 * time.Second},
		}},
		{"a refusal charges nothing", ratelimit.Rule{Count: 5, Window: time.Minute}, []step{
			{0, 3, true, 2, 61 * time.Second},
			{time.Second, 3, false, 2, 60 * time.Second},
			{2 * time.Second, 3, false, 2, 59 * time.Second},
			{3 * time.Second, 2, true, 0, 58 * time.Second},
			{61 * time.Second, 3, true, 0, 3 * time.Second},
		}},
		{"more at once than there is", ratelimit.Rule{Count: 5, Window: time.Minute}, []step{
			{0, 6, false, 5, 61 * time.Second},
			{0, 5, true, 0, 61 * time.Second},
		}},
		{"long silence", ratelimit.Rule{Count: 1, Window: time.Hour}, []step{
			{0, 1, true, 0, 61 * time.Minute},
			{100 * time.Hour, 1, true, 0, 61 * time.Minute},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, mini := clocked(t)
			for i, s := range tc.steps {
				mini.SetTime(start.Add(s.at))
				q, err := l.Charge(t.Context(), "pulls", "ada", ratelimit.Limit{tc.rule}, s.n)
				if (err == nil) != s.allowed || !s.allowed && !errors.Is(err, fault.Exhausted) {
					t.Errorf("step %d: %v", i, err)
				}
				want := ratelimit.Quota{Limit: tc.rule.Count, Remaining: s.remaining, Reset: s.reset}
				if diff := cmp.Diff(want, q); diff != "" {
					t.Errorf("step %d: %s", i, diff)
				}
			}
		})
	}
}

// TestWindowNeverGivesBackEarly checks that no period of a window's length contains more than
// the rule allows, wherever the charge is in its bucket, even if sixty does not divide the
// window.
func TestWindowNeverGivesBackEarly(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{60 * time.Millisecond, 100 * time.Millisecond, time.Second, 1999 * time.Millisecond, time.Minute} {
		l, mini := clocked(t)
		rule := ratelimit.Limit{{Count: 1, Window: window}}
		for _, at := range []time.Duration{0, 1, 7, 15, 16, 17, 31, 59, 99} {
			caller := at.String()
			charge := func(d time.Duration) error {
				mini.SetTime(start.Add(at*time.Millisecond + d))
				_, err := l.Charge(t.Context(), "pulls", caller, rule, 1)
				return err
			}
			if err := charge(0); err != nil {
				t.Fatal(err)
			}
			if err := charge(window - time.Millisecond); !errors.Is(err, fault.Exhausted) {
				t.Errorf("%s: charged at %d ms, it is given back within the window: %v", window, at, err)
			}
			if err := charge(2 * window); err != nil {
				t.Errorf("%s: charged at %d ms, it is not given back: %v", window, at, err)
			}
		}
	}
}

func TestSeveralRules(t *testing.T) {
	t.Parallel()
	l, mini := clocked(t)
	limit := ratelimit.Limit{{Count: 2, Window: time.Minute}, {Count: 3, Window: time.Hour}}
	for i, s := range []struct {
		at      time.Duration
		allowed bool
		want    ratelimit.Quota
	}{
		{0, true, ratelimit.Quota{Limit: 2, Remaining: 1, Reset: 61 * time.Second}},
		{0, true, ratelimit.Quota{Limit: 2, Remaining: 0, Reset: 61 * time.Second}},
		{0, false, ratelimit.Quota{Limit: 2, Remaining: 0, Reset: 61 * time.Second}},
		// The other rule has not counted the rejected charge either: one is left.
		{2 * time.Minute, true, ratelimit.Quota{Limit: 3, Remaining: 0, Reset: 59 * time.Minute}},
		{4 * time.Minute, false, ratelimit.Quota{Limit: 3, Remaining: 0, Reset: 57 * time.Minute}},
		{61 * time.Minute, true, ratelimit.Quota{Limit: 2, Remaining: 1, Reset: 61 * time.Second}},
	} {
		mini.SetTime(start.Add(s.at))
		q, err := l.Charge(t.Context(), "pulls", "ada", limit, 1)
		if diff := cmp.Diff(s.want, q); diff != "" || (err == nil) != s.allowed {
			t.Errorf("step %d: %v %s", i, err, diff)
		}
	}
}

func TestCountersExpire(t *testing.T) {
	t.Parallel()
	l, mini := clocked(t)
	limit := ratelimit.Limit{{Count: 2, Window: time.Second}, {Count: 3, Window: time.Minute}}
	if _, err := l.Charge(t.Context(), "pulls", "ada", limit, 1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"limit:{ada}:pulls:1000", "limit:{ada}:pulls:60000"}, mini.Keys()); diff != "" {
		t.Error(diff)
	}
	mini.FastForward(time.Minute)
	if got := mini.Keys(); len(got) != 1 {
		t.Errorf("after a minute there is still %v", got)
	}
	mini.FastForward(time.Minute)
	if got := mini.Keys(); len(got) != 0 {
		t.Errorf("after two minutes there is still %v", got)
	}
}
