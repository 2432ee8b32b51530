package builder

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// idle exports for each queue that the worker serves how long it has had a free slot without
// getting a job.
type idle struct {
	now   func() time.Time
	slots int // of each engine

	mu      sync.Mutex
	since   map[queue]time.Time
	running map[string]int // by engine
}

func newIdle(slots int, now func() time.Time) *idle {
	return &idle{now: now, slots: slots, since: map[queue]time.Time{}, running: map[string]int{}}
}

// serve states that the worker takes jobs of a queue, until stop is called.
func (i *idle) serve(q queue) (stop func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.since[q] = i.now()
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.since, q)
	}
}

// work states that the worker has got a job of a queue, until ended is called.
func (i *idle) work(q queue) (ended func()) {
	i.count(q, 1)
	return func() { i.count(q, -1) }
}

func (i *idle) count(q queue, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running[q.engine] += n
	for other := range i.since {
		if other == q || other.engine == q.engine && n < 0 { // its slot is free for all queues of the engine
			i.since[other] = i.now()
		}
	}
}

//nolint:gochecknoglobals // a description, never changed
var descIdle = prometheus.NewDesc("slipway_builder_idle_seconds",
	"How long this worker has had a free slot without getting a build, by engine and architecture that it builds for.", []string{"engine", "architecture"}, nil)

// Describe implements prometheus.Collector.
func (i *idle) Describe(ch chan<- *prometheus.Desc) { ch <- descIdle }

// Collect implements prometheus.Collector.
func (i *idle) Collect(ch chan<- prometheus.Metric) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for q, since := range i.since {
		seconds := 0.0
		if i.running[q.engine] < i.slots {
			seconds = max(i.now().Sub(since).Seconds(), 0)
		}
		ch <- prometheus.MustNewConstMetric(descIdle, prometheus.GaugeValue, seconds, q.engine, q.arch)
	}
}
