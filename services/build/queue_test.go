package build_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestQueueDepth is what autoscalers see: builds that wait or run, and 0 while
// there is a worker that could go.
func TestQueueDepth(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newPlace(t, db)
		r := p.replica(t, 100)
		p.depth(t, map[string]float64{})
		w := newWorker(t, p.bus, 1)
		p.depth(t, map[string]float64{"buildkit/amd64": 0, "buildkit/arm64": 0})
		r.submit(t, p.request("one", "", nil))
		r.submit(t, p.request("two", "", nil))
		p.depth(t, map[string]float64{"buildkit/amd64": 2, "buildkit/arm64": 0})
		j := w.take(t, r, 1)
		p.depth(t, map[string]float64{"buildkit/amd64": 2, "buildkit/arm64": 0})
		j.succeed(t, "sha256:x")
		j.ended(t, r)
		p.depth(t, map[string]float64{"buildkit/amd64": 1, "buildkit/arm64": 0})
	})
}

// depth waits until the replica tells what is wanted.
func (p *place) depth(t *testing.T, want map[string]float64) {
	t.Helper()
	poll(t, "the depth of the queue", func(context.Context) error {
		families, err := p.metrics.Gather()
		if err != nil {
			return err
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() != "slipway_build_queue_depth" {
				continue
			}
			for _, m := range f.GetMetric() {
				l := map[string]string{}
				for _, pair := range m.GetLabel() {
					l[pair.GetName()] = pair.GetValue()
				}
				got[l["engine"]+"/"+l["architecture"]] = m.GetGauge().GetValue()
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
}
