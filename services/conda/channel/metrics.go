package channel

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics say how channels are.
type metrics struct {
	store     *Store
	refreshes *prometheus.CounterVec
	seconds   prometheus.Histogram
}

//nolint:gochecknoglobals // descriptions, never changed
var (
	descAge = prometheus.NewDesc("slipway_conda_index_age_seconds",
		"Time since the channel last said that its index is right, by channel and platform; the oldest of those that the operator does not name are one.", []string{"channel", "subdir"}, nil)
	descSize = prometheus.NewDesc("slipway_conda_index_bytes",
		"Size of the indexes on the disk, likewise.", []string{"channel", "subdir"}, nil)
)

func newMetrics(s *Store, r prometheus.Registerer) *metrics {
	m := &metrics{
		store: s,
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_conda_refreshes_total", Help: "Times that a channel was asked for its list of packages, by outcome: fetched, unchanged, absent or failed.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_conda_refresh_seconds", Help: "How long that took.", Buckets: []float64{.05, .1, .5, 1, 2, 5, 10, 30, 60, 300},
		}),
	}
	for _, outcome := range []string{"fetched", "unchanged", "absent", "failed"} {
		m.refreshes.WithLabelValues(outcome)
	}
	r.MustRegister(m.refreshes, m.seconds, m)
	return m
}

func (m *metrics) refreshed(err error, took time.Duration) {
	outcome := "failed"
	switch {
	case err == nil:
		outcome = "fetched"
	case errors.Is(err, errUnchanged):
		outcome = "unchanged"
	case errors.Is(err, errAbsent):
		outcome = "absent"
	}
	m.refreshes.WithLabelValues(outcome).Inc()
	m.seconds.Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descAge
	ch <- descSize
}

// Collect implements prometheus.Collector. A stranger can name any channel, so only
// those have a name here that the operator knows.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	type label struct{ channel, subdir string }
	age, size := map[label]float64{}, map[label]float64{}
	m.store.mu.Lock()
	for _, e := range m.store.entries {
		if e.index == nil {
			continue
		}
		l := label{"other", "other"}
		if m.store.IsKnown(e.channel.Name) && e.key.scope == "" {
			l = label{e.channel.Name, e.key.subdir}
		}
		age[l] = max(age[l], m.store.now().Sub(e.checked).Seconds())
		size[l] += float64(e.index.Size())
	}
	m.store.mu.Unlock()
	for l := range age {
		ch <- prometheus.MustNewConstMetric(descAge, prometheus.GaugeValue, age[l], l.channel, l.subdir)
		ch <- prometheus.MustNewConstMetric(descSize, prometheus.GaugeValue, size[l], l.channel, l.subdir)
	}
}
