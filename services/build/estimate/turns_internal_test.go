package estimate

import (
	"testing"
	"time"

	"slipway.dev/services/internal/ratelimit"
)

// TestStartAfter checks when a build starts among others with and without limits of builds at a time.
func TestStartAfter(t *testing.T) {
	t.Parallel()
	of := func(id int64, most int) []ratelimit.RunningLimit {
		return []ratelimit.RunningLimit{{Subject: ratelimit.Subject{Of: ratelimit.Organization, ID: id}, Most: most}}
	}
	runs := func(left time.Duration, limits []ratelimit.RunningLimit) build {
		return build{isRunning: true, needsSlot: true, left: left, limits: limits}
	}
	waits := func(left time.Duration, limits []ratelimit.RunningLimit) build {
		return build{needsSlot: true, left: left, limits: limits}
	}
	lab, other := of(1, 1), of(2, 2)
	for name, tc := range map[string]struct {
		before []build
		own    []ratelimit.RunningLimit
		slots  int
		want   time.Duration
	}{
		"nothing else":                       {nil, nil, 1, 0},
		"a free slot":                        {[]build{runs(10, nil)}, nil, 2, 0},
		"one slot":                           {[]build{runs(10, nil), waits(20, nil)}, nil, 1, 30},
		"two slots":                          {[]build{runs(10, nil), runs(15, nil), waits(20, nil)}, nil, 2, 15},
		"more builds than slots":             {[]build{runs(10, nil), runs(15, nil)}, nil, 1, 15},
		"at the limit":                       {[]build{runs(10, lab)}, lab, 4, 10},
		"behind one at the limit":            {[]build{runs(10, lab), waits(20, lab)}, lab, 4, 30},
		"overtaking those at their limit":    {[]build{runs(10, lab), waits(20, lab), waits(20, lab)}, nil, 2, 0},
		"one slot, and others at the limit":  {[]build{runs(10, lab), waits(20, lab)}, nil, 1, 30},
		"a limit of two":                     {[]build{runs(10, other), runs(30, other)}, other, 4, 10},
		"another organisation":               {[]build{runs(10, lab)}, other, 4, 0},
		"no limit":                           {[]build{runs(10, of(1, 0))}, of(1, 0), 4, 0},
		"a build of other workers":           {[]build{{isRunning: true, left: 10, limits: lab}}, lab, 1, 10},
		"a waiting build of other workers":   {[]build{{left: 10, limits: lab}}, lab, 1, 10},
		"other workers need no slot of ours": {[]build{{isRunning: true, left: 10}}, nil, 1, 0},
	} {
		if got := startAfter(tc.before, build{needsSlot: true, limits: tc.own}, tc.slots); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
