package audit

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTime is the timeout of a query for metrics.
const scrapeTime = 5 * time.Second

// sinkMetrics exports the state of the sink. It queries SQL when scraped, so that all replicas
// report the same.
type sinkMetrics struct{ *Forwarder }

//nolint:gochecknoglobals // descriptions, never changed
var (
	descSinkWaiting = prometheus.NewDesc("slipway_audit_sink_waiting",
		"Audit events that audit_sink has not accepted yet; only with this setting. All replicas report the same value: use max, not sum.", nil, nil)
	descSinkAge = prometheus.NewDesc("slipway_audit_sink_age_seconds",
		"Age of the oldest audit event that audit_sink has not accepted yet; 0 if none waits. All replicas report the same value.", nil, nil)
	descSinkStalled = prometheus.NewDesc("slipway_audit_sink_stalled_seconds",
		"How long events have waited for audit_sink without any being accepted; 0 if none waits. All replicas report the same value.", nil, nil)
	descSinkLost = prometheus.NewDesc("slipway_audit_sink_lost_total",
		"Audit events that were deleted before audit_sink accepted them. All replicas report the same value.", nil, nil)
)

// Describe implements prometheus.Collector.
func (sinkMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descSinkWaiting
	ch <- descSinkAge
	ch <- descSinkStalled
	ch <- descSinkLost
}

// Collect implements prometheus.Collector. There are no values without a sink, and while the
// database is unavailable.
func (m sinkMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.target == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	s, err := m.log.SinkState(ctx)
	if err != nil {
		m.logger.WarnContext(ctx, "The state of audit_sink cannot be read", "err", err)
		return
	}
	age, stalled := s.waits(m.log.Now())
	ch <- prometheus.MustNewConstMetric(descSinkWaiting, prometheus.GaugeValue, float64(s.Waiting))
	ch <- prometheus.MustNewConstMetric(descSinkAge, prometheus.GaugeValue, age.Seconds())
	ch <- prometheus.MustNewConstMetric(descSinkStalled, prometheus.GaugeValue, stalled.Seconds())
	ch <- prometheus.MustNewConstMetric(descSinkLost, prometheus.CounterValue, float64(s.Lost))
}

// waits returns the age of the oldest event that waits, and how long events have waited without
// any being accepted.
func (s SinkState) waits(now time.Time) (age, stalled time.Duration) {
	if s.Oldest.IsZero() {
		return 0, 0
	}
	age = max(now.Sub(s.Oldest), 0)
	return age, min(age, max(now.Sub(s.Written), 0))
}
