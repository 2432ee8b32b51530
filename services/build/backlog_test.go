package build_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestBacklog checks the metrics of unfinished builds for dashboards, alerts and
// autoscalers, including 0 for a live worker's kind.
func TestBacklog(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		p.backlog(t, map[string]float64{"age": 0})
		backlog := func(queued, running float64, age time.Duration) map[string]float64 {
			return map[string]float64{
				"buildkit/amd64/queued": queued, "buildkit/amd64/running": running,
				"buildkit/arm64/queued": 0, "buildkit/arm64/running": 0, "age": age.Seconds(),
			}
		}
		w := newWorker(t, p, 1)
		p.backlog(t, backlog(0, 0, 0))
		r.submit(t, p.request("one", "", nil))
		j := w.take(t, r, 1)
		p.sleep(3 * time.Second)
		r.submit(t, p.request("two", "", nil))
		p.sleep(2 * time.Second)
		p.backlog(t, backlog(1, 1, 2*time.Second))
		j.succeed(t, "sha256:x")
		j.ended(t, r)
		p.backlog(t, backlog(1, 0, 2*time.Second))
	})
}

// backlog waits until the replica reports the wanted values.
func (p *deployment) backlog(t *testing.T, want map[string]float64) {
	t.Helper()
	poll(t, "the backlog", func(context.Context) error {
		families, err := p.replicas[len(p.replicas)-1].Gather()
		if err != nil {
			return err
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				l := map[string]string{}
				for _, pair := range m.GetLabel() {
					l[pair.GetName()] = pair.GetValue()
				}
				switch f.GetName() {
				case "slipway_build_queue_depth":
					got[l["engine"]+"/"+l["architecture"]+"/"+l["state"]] = m.GetGauge().GetValue()
				case "slipway_build_queue_age_seconds":
					got["age"] = m.GetGauge().GetValue()
				}
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
}
