package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Backlog exports metrics of unfinished builds for dashboards and autoscalers. It queries
// SQL when scraped, so that all replicas report the same, and no replica has to keep
// counters.
type Backlog struct {
	Queue *Queue
	Log   *slog.Logger
}

// scrapeTime is the timeout of the query.
const scrapeTime = 5 * time.Second

//nolint:gochecknoglobals // descriptions, never changed
var (
	descDepth = prometheus.NewDesc("slipway_build_queue_depth",
		"Builds that wait for a worker (queued) or run (running). All replicas of the build role report the same value: use max, not sum.",
		[]string{"engine", "architecture", "state"}, nil)
	descAge = prometheus.NewDesc("slipway_build_queue_age_seconds",
		"Age of the oldest build that waits for a worker; 0 when none waits. All replicas report the same value.", nil, nil)
	descSlots = prometheus.NewDesc("slipway_build_worker_slots",
		"How many builds the live workers can run concurrently, as far as this replica knows.", nil, nil)
)

// Describe implements prometheus.Collector.
func (b *Backlog) Describe(ch chan<- *prometheus.Desc) {
	ch <- descDepth
	ch <- descAge
	ch <- descSlots
}

// Collect implements prometheus.Collector. If the database is unavailable, it omits the
// metrics of builds: with a value of 0 an autoscaler would stop workers.
func (b *Backlog) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	slots := 0
	for _, w := range b.Queue.Workers.Live() {
		if w.GetProblem() == "" {
			slots += int(w.GetSlots())
		}
	}
	gauge(descSlots, float64(slots))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	all, err := b.Queue.Backlog(ctx)
	if err != nil {
		b.Log.WarnContext(ctx, "The queue of builds cannot be counted", "err", err)
		return
	}
	var age time.Duration
	for c, u := range all {
		gauge(descDepth, float64(u.Queued), c.Engine, c.Architecture, "queued")
		gauge(descDepth, float64(u.Running), c.Engine, c.Architecture, "running")
		if u.Queued > 0 {
			age = max(age, b.Queue.Now().Sub(u.Oldest))
		}
	}
	gauge(descAge, age.Seconds())
}
