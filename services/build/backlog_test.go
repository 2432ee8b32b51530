package build_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestBacklog is what dashboards and alerts see of builds that have not ended.
func TestBacklog(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newPlace(t, db)
		r := p.replica(t, 100)
		p.backlog(t, 0, 0, 0)
		w := newWorker(t, p.bus, 1)
		r.submit(t, p.request("one", "", nil))
		j := w.take(t, r, 1)
		p.sleep(time.Minute)
		r.submit(t, p.request("two", "", nil))
		p.sleep(2 * time.Second)
		p.backlog(t, 1, 1, 2*time.Second)
		j.succeed(t, "sha256:x")
		j.ended(t, r)
		p.backlog(t, 1, 0, 2*time.Second)
	})
}

// backlog waits until the replica tells what is wanted.
func (p *place) backlog(t *testing.T, queued, running float64, age time.Duration) {
	t.Helper()
	want := map[string]float64{"queued": queued, "running": running, "age": age.Seconds()}
	poll(t, "the backlog", func(context.Context) error {
		families, err := p.metrics.Gather()
		if err != nil {
			return err
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				switch f.GetName() {
				case "slipway_builds_unfinished":
					got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
				case "slipway_build_queue_age_seconds":
					got["age"] = m.GetGauge().GetValue()
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
}
