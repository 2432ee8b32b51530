package builder

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the worker's metrics.
type metrics struct {
	running atomic.Int64
	seconds *prometheus.HistogramVec
	phase   *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{phase: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "slipway_builder_phase_seconds",
		Help:    "Duration of the phases of builds, by engine.",
		Buckets: []float64{.1, .5, 2, 10, 30, 60, 120, 300, 600, 1200},
	}, []string{"engine", "phase"}), seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "slipway_builder_seconds",
		Help:    "Duration of deliveries of builds, by engine and reason; ok means that the image was pushed.",
		Buckets: []float64{.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800},
	}, []string{"engine", "reason"})}
	reg.MustRegister(m.seconds, m.phase, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slipway_builder_running", Help: "Builds that are running in this process.",
	}, func() float64 { return float64(m.running.Load()) }))
	return m
}

func (m *metrics) count() int64 { return m.running.Load() }

// started counts a build as running until ended is called.
func (m *metrics) started() (ended func(engine, reason string, took time.Duration)) {
	m.running.Add(1)
	return func(engine, reason string, took time.Duration) {
		if reason == "" {
			reason = "ok"
		}
		m.running.Add(-1)
		m.seconds.WithLabelValues(engine, reason).Observe(took.Seconds())
	}
}
