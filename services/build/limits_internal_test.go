package build

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
)

// TestAwaitLimits checks that the first build waits for the limits, but not for longer than its bound.
func TestAwaitLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wait, known time.Duration // known is when the limits are read; 0 for never
		want        time.Duration
	}{
		"no waiting": {0, 0, 0}, "read at once": {time.Minute, time.Millisecond, time.Millisecond}, "read later": {time.Minute, 50 * time.Second, 50 * time.Second}, "never read": {time.Minute, 0, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimit.New(nil, prometheus.NewRegistry(), testkit.Log(t))
			s := &Service{deps: Deps{Limiter: l, Log: testkit.Log(t), Settings: Settings{LimitsWait: tc.wait}}}
			if tc.known > 0 {
				time.AfterFunc(tc.known, func() { l.SetOwn(ratelimit.Own{}) })
			}
			begin := time.Now()
			s.awaitLimits(t.Context())
			if got := time.Since(begin); got != tc.want {
				t.Errorf("%s: waited %s, want %s", name, got, tc.want)
			}
		})
	}
}
