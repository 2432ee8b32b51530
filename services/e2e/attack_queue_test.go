package e2e

import (
	"fmt"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestAttackSleepingBuildsHoldSlots starts more anonymous builds that only sleep than there are
// slots. A signed-in user's build must run nevertheless.
func TestAttackSleepingBuildsHoldSlots(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"build_concurrency": "2", "limit_builds_anonymous": "0"}))
	g := newGate(t)
	var sleepers []map[string]any
	for i := range 5 {
		sleepers = append(sleepers, p.order(recipe("FROM "+base, fmt.Sprintf("LABEL sleeper=%d", i), g.step())))
	}
	g.reached(t)
	mine := p.order(recipe("FROM scratch", "LABEL awake=yes"), "Authorization", "Bearer "+p.token)
	if s := p.finished(t, mine); s["succeeded"] != true {
		t.Errorf("the user's build ended as %v", s)
	}
	if n := g.begun.Load(); n != 1 {
		t.Errorf("%d sleeping builds run, want 1 in 2 slots", n)
	}
	g.passed(t, text(sleepers[0], "targetImage"))
	for _, s := range sleepers {
		if how := p.finished(t, s); how["succeeded"] != true {
			t.Errorf("a sleeping build ended as %v", how)
		}
	}
}
