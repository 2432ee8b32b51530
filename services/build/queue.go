package build

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// queue tells Prometheus how many builds wait or run: what an autoscaler starts
// workers by. It is read from SQL when it is asked for, so that every replica
// tells the same, and nobody has to be alive to keep it true.
type queue struct {
	store   store
	workers *workers
	log     *slog.Logger
}

// depth is the only thing it tells.
func (queue) depth() *prometheus.Desc {
	return prometheus.NewDesc("slipway_build_queue_depth",
		"Builds that wait for a worker or run, by engine and architecture; every replica tells the same.",
		[]string{"engine", "architecture"}, nil)
}

// Describe implements prometheus.Collector.
func (q queue) Describe(out chan<- *prometheus.Desc) { out <- q.depth() }

// Collect implements prometheus.Collector: nothing is told while the database
// does not answer, since a 0 would stop workers.
func (q queue) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	depths, err := q.store.depths(ctx)
	if err != nil {
		q.log.WarnContext(ctx, "The queue of builds cannot be counted", "err", err)
		return
	}
	for _, c := range q.workers.capabilities() {
		depths[c] += 0 // a worker that has nothing to do can go
	}
	for c, n := range depths {
		out <- prometheus.MustNewConstMetric(q.depth(), prometheus.GaugeValue, float64(n), c.engine, c.architecture)
	}
}

// depths counts the builds that have not ended.
func (s store) depths(ctx context.Context) (_ map[capability]int64, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT engine, architecture, COUNT(*) FROM build_builds WHERE state = 'PENDING' AND engine <> $1
		GROUP BY engine, architecture`, engineIndex)
	if err != nil {
		return nil, fmt.Errorf("counting builds: %w", err)
	}
	defer rows.Close()
	out := map[capability]int64{}
	for rows.Next() {
		var c capability
		var n int64
		if err := rows.Scan(&c.engine, &c.architecture, &n); err != nil {
			return nil, fmt.Errorf("counting builds: %w", err)
		}
		out[c] = n
	}
	return out, rows.Err()
}
