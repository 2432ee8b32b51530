package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestBuildsAreFair queues forty builds of one user, then ten of another user, on a worker with
// one slot. The second user must not have to wait for all builds of the first user.
func TestBuildsAreFair(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"build_concurrency": "1", "limit_builds_anonymous": "0", "limit_builds_user": "0"}))
	first := []string{"Authorization", "Bearer " + p.token}
	g := newGate(t) // blocks the worker until all builds are queued
	long := p.order(recipe("FROM "+base, g.step()), first...)
	g.reached(t)
	queue := func(who string, n int, header ...string) (builds []queued) {
		for i := range n {
			a := p.order(recipe("FROM scratch", fmt.Sprintf("LABEL who=%s n=%d", who, i)), header...)
			builds = append(builds, queued{who: who, request: a})
		}
		return builds
	}
	second := []string{"Authorization", "Bearer " + p.newUser("eve")}
	builds := append(queue("A", 40, first...), queue("b", 10, second...)...)
	g.passed(t, text(long, "targetImage"))
	begin := time.Now()
	for i := range builds {
		if s := p.finished(t, builds[i].request); s["succeeded"] != true {
			t.Fatalf("%v ended as %v", builds[i], s)
		}
		builds[i].ended = p.ended(t, text(builds[i].request, "buildId"))
	}
	slices.SortFunc(builds, func(a, b queued) int { return a.ended.Compare(b.ended) })
	order := ""
	for _, b := range builds {
		order += b.who
	}
	t.Logf("%d builds in %s: %s", len(builds), time.Since(begin), order)
	// In a fair order, the second user's builds are among the first twenty that end, apart from
	// the builds of the first user that are already dispatched.
	if place := strings.LastIndex(order, "b") + 1; place > 24 {
		t.Errorf("the last of the second user's ten builds ended in place %d: %s", place, order)
	}
}

// queued is a build that a user waits for.
type queued struct {
	who     string
	request map[string]any
	ended   time.Time
}

// ended returns when a build ended.
func (p *program) ended(t testing.TB, id string) time.Time {
	t.Helper()
	b := p.call(http.MethodGet, "/v1alpha1/builds/"+id, nil).json(t)
	began, err := time.Parse(time.RFC3339Nano, text(b, "startTime"))
	seconds, ok := b["duration"].(float64)
	if err != nil || !ok {
		t.Fatalf("the build's record is %v (%v)", b, err)
	}
	return began.Add(time.Duration(seconds * float64(time.Second)))
}
