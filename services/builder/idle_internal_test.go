package builder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestIdle checks how long a worker with two slots has been idle, by queue.
func TestIdle(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	i := newIdle(2, func() time.Time { return now })
	amd, arm := queue{"conda", "amd64"}, queue{"conda", "arm64"}
	exports := func(when string, values map[queue]int) {
		t.Helper()
		now = now.Add(10 * time.Second)
		var want strings.Builder
		want.WriteString("# HELP slipway_builder_idle_seconds How long this worker has had a free slot without getting a build, by engine and architecture that it builds for.\n# TYPE slipway_builder_idle_seconds gauge\n")
		for q, seconds := range values {
			fmt.Fprintf(&want, "slipway_builder_idle_seconds{architecture=%q,engine=%q} %d\n", q.arch, q.engine, seconds)
		}
		if len(values) == 0 {
			want.Reset()
		}
		if err := testutil.CollectAndCompare(i, strings.NewReader(want.String())); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	exports("before the worker takes jobs", nil)
	stop := i.serve(amd)
	defer i.serve(arm)()
	exports("without a job", map[queue]int{amd: 10, arm: 10})
	first := i.work(amd)
	exports("with one of two slots", map[queue]int{amd: 10, arm: 20})
	second := i.work(amd)
	exports("with both slots", map[queue]int{amd: 0, arm: 0})
	first()
	exports("with a slot that became free", map[queue]int{amd: 10, arm: 10})
	second()
	stop()
	exports("after the engine stopped building for one architecture", map[queue]int{arm: 10})
}
