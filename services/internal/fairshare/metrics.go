package fairshare

import "github.com/prometheus/client_golang/prometheus"

// Reasons of rejections, as a label.
const (
	reasonClient   = "client"
	reasonQueue    = "queue"
	reasonCapacity = "capacity"
	reasonTimeout  = "timeout"
)

// metrics are the metrics of one pool, whose name is a label.
type metrics struct {
	held, queued *prometheus.Desc
	waited       prometheus.Histogram
	refusals     *prometheus.CounterVec
}

func newMetrics(pool string) *metrics {
	labels := prometheus.Labels{"pool": pool}
	m := &metrics{
		held:   prometheus.NewDesc("slipway_fairshare_held", "What clients hold of a pool (places or bytes).", nil, labels),
		queued: prometheus.NewDesc("slipway_fairshare_waiting", "Requests that wait for their share of a pool.", nil, labels),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_fairshare_wait_seconds", Help: "Time that served requests waited for their share of a pool.", ConstLabels: labels,
			Buckets: []float64{.001, .01, .1, .5, 1, 2, 5, 10, 30, 60},
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_fairshare_refused_total", ConstLabels: labels,
			Help: "Requests refused by a pool, by reason: client (its own limit), queue (too many wait), capacity (nothing is free, and the request does not wait) or timeout (waited too long).",
		}, []string{"reason"}),
	}
	for _, reason := range []string{reasonClient, reasonQueue, reasonCapacity, reasonTimeout} {
		m.refusals.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

// Describe implements prometheus.Collector.
func (p *Pool) Describe(ch chan<- *prometheus.Desc) {
	ch <- p.metrics.held
	ch <- p.metrics.queued
	p.metrics.waited.Describe(ch)
	p.metrics.refusals.Describe(ch)
}

// Collect implements prometheus.Collector.
func (p *Pool) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	held, queued := p.held, len(p.waiting)
	p.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(p.metrics.held, prometheus.GaugeValue, float64(held))
	ch <- prometheus.MustNewConstMetric(p.metrics.queued, prometheus.GaugeValue, float64(queued))
	p.metrics.waited.Collect(ch)
	p.metrics.refusals.Collect(ch)
}
