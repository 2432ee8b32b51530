package channel

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics collects the state of the channels.
type metrics struct {
	store     *Store
	refreshes *prometheus.CounterVec
	seconds   prometheus.Histogram
}

//nolint:gochecknoglobals // descriptions, never changed
var (
	descAge = prometheus.NewDesc("slipway_conda_index_age_seconds",
		"Time since the channel last confirmed its index, by channel and platform; channels that the operator did not configure share one series with the oldest.", []string{"channel", "subdir"}, nil)
	descSize = prometheus.NewDesc("slipway_conda_index_bytes",
		"Size of the indexes on disk, by channel and platform.", []string{"channel", "subdir"}, nil)
	descFailing = prometheus.NewDesc("slipway_conda_refresh_failing",
		"1 if the last refresh of the package list failed, else 0; only for channels with names of their own, while they are used.", []string{"channel", "subdir"}, nil)
)

func newMetrics(s *Store, r prometheus.Registerer) *metrics {
	m := &metrics{
		store: s,
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_conda_refreshes_total", Help: "Requests to channels for their package list, by outcome: fetched, unchanged, absent or failed.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_conda_refresh_seconds", Help: "Duration of requests to channels for their package list.", Buckets: []float64{.05, .1, .5, 1, 2, 5, 10, 30, 60, 300},
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
	ch <- descFailing
}

// Collect implements prometheus.Collector. Clients can request any channel, so only
// channels that the operator configured or that are well known have their own label.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	type label struct{ channel, subdir string }
	age, size, failing := map[label]float64{}, map[label]float64{}, map[label]float64{}
	m.store.mu.Lock()
	for _, e := range m.store.entries {
		l := label{"other", "other"}
		if m.store.isShared(e) {
			l = label{e.channel.Name, e.key.subdir}
			if m.store.isUsed(e) {
				failing[l] = 0
				if e.failure != nil {
					failing[l] = 1
				}
			}
		}
		if e.index == nil {
			continue
		}
		age[l] = max(age[l], m.store.now().Sub(e.checked).Seconds())
		size[l] += float64(e.index.Size())
	}
	m.store.mu.Unlock()
	for l := range age {
		ch <- prometheus.MustNewConstMetric(descAge, prometheus.GaugeValue, age[l], l.channel, l.subdir)
		ch <- prometheus.MustNewConstMetric(descSize, prometheus.GaugeValue, size[l], l.channel, l.subdir)
	}
	for l, v := range failing {
		ch <- prometheus.MustNewConstMetric(descFailing, prometheus.GaugeValue, v, l.channel, l.subdir)
	}
}
