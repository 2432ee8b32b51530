package build

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/retry"
)

const (
	// eventBatch is the number of events that are read together.
	eventBatch = 100
	// eventInterval is how often to look for events that another replica has added.
	eventInterval = 5 * time.Second
	// eventTime is the timeout for publishing a batch.
	eventTime = 30 * time.Second
)

// publishEvents publishes the events of builds in their order until ctx ends. An event stays in
// SQL until the stream has it. Replicas may publish the same event: consumers recognise its id.
func (s *Service) publishEvents(ctx context.Context) {
	look := time.NewTicker(eventInterval)
	defer look.Stop()
	outage := &retry.Outage{Log: s.deps.Log, Fails: "Events of builds cannot be published right now; retrying", Works: "Events of builds are published again"}
	retry.Forever(ctx, outage, func(ctx context.Context) error {
		if err := bus.CreateStreams(ctx, s.bus, eventbus.Stream()); err != nil {
			return err
		}
		for {
			n, err := s.publishBatch(ctx)
			if err != nil {
				return err
			}
			outage.Succeeded(ctx)
			if n == eventBatch {
				continue
			}
			select {
			case <-ctx.Done():
				return nil
			case <-s.happened:
			case <-look.C:
			}
		}
	})
}

// publishBatch publishes the oldest events, and returns how many.
func (s *Service) publishBatch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	events, err := s.store.Events(ctx, eventBatch)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	for i, e := range events {
		if err := eventbus.Publish(ctx, s.bus, eventbus.Builds, e); err != nil {
			rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventTime)
			defer cancel()
			_ = s.store.RemoveEvents(rest, events[:i]) // otherwise they are published again
			return 0, err
		}
	}
	return len(events), s.store.RemoveEvents(ctx, events)
}

// eventMetrics exports how many events of builds wait to be published. It queries SQL when
// scraped, so that all replicas report the same.
type eventMetrics struct{ *Service }

// scrapeTime is the timeout of a query for metrics.
const scrapeTime = 5 * time.Second

//nolint:gochecknoglobals // descriptions, never changed
var (
	descEventsWaiting = prometheus.NewDesc("slipway_build_events_waiting",
		"Events of builds that are not on NATS yet. All replicas of the build role report the same value: use max, not sum.", nil, nil)
	descEventsAge = prometheus.NewDesc("slipway_build_events_age_seconds",
		"Age of the oldest event of a build that is not on NATS yet; 0 when none waits. All replicas report the same value.", nil, nil)
)

// Describe implements prometheus.Collector.
func (eventMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descEventsWaiting
	ch <- descEventsAge
}

// Collect implements prometheus.Collector. There are no values while the database is unavailable.
func (m eventMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	n, oldest, err := m.store.EventsWaiting(ctx)
	if err != nil {
		m.deps.Log.WarnContext(ctx, "The events of builds cannot be counted", "err", err)
		return
	}
	age := time.Duration(0)
	if n > 0 {
		age = max(m.deps.Now().Sub(oldest), 0)
	}
	ch <- prometheus.MustNewConstMetric(descEventsWaiting, prometheus.GaugeValue, float64(n))
	ch <- prometheus.MustNewConstMetric(descEventsAge, prometheus.GaugeValue, age.Seconds())
}
