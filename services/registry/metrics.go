package registry

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/httprecord"
)

// metrics measure pulls.
type metrics struct {
	seconds *prometheus.HistogramVec
	bytes   *prometheus.CounterVec
	// open counts requests in progress, and waiting those of them that wait for a build.
	open, waiting atomic.Int64
}

func newMetrics(reg prometheus.Registerer, r *Registry) *metrics {
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "slipway_registry_seconds",
			Help:    "Duration of registry requests until the end of the response, by kind and status code.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60, 600},
		}, []string{"kind", "code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_registry_bytes_total",
			Help: "Bytes of response bodies by kind of request, without those that clients fetch after a redirect.",
		}, []string{"kind"}),
	}
	reg.MustRegister(m.seconds, m.bytes, r.waiting,
		gauge("slipway_registry_open_requests", "Requests in progress.", &m.open),
		gauge("slipway_registry_waiting_requests", "Requests that wait for a build now.", &m.waiting),
	)
	for cache, hits := range map[string]*stats.Counter{
		"token": r.tokens.hits, "document": r.images.docHits, "image": r.images.madeHits, "layer": r.layers.hits, "blob": r.blobs.Hits(), "tag": r.images.tags.hits,
	} {
		reg.MustRegister(
			lookups(cache, "hit", func(s stats.Stats) uint64 { return s.Hits }, hits),
			lookups(cache, "miss", func(s stats.Stats) uint64 { return s.Misses }, hits),
		)
	}
	return m
}

func gauge(name, help string, n *atomic.Int64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(n.Load()) })
}

func lookups(cache, result string, pick func(stats.Stats) uint64, of *stats.Counter) prometheus.CounterFunc {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name:        "slipway_registry_cache_total",
		Help:        "Lookups in the registry's caches, by cache and result.",
		ConstLabels: prometheus.Labels{"cache": cache, "result": result},
	}, func() float64 { return float64(pick(of.Snapshot())) })
}

func (m *metrics) observe(kind string, rec *httprecord.Writer, start time.Time) {
	m.seconds.WithLabelValues(kind, strconv.Itoa(rec.Code)).Observe(time.Since(start).Seconds())
	m.bytes.WithLabelValues(kind).Add(float64(rec.Bytes))
}
