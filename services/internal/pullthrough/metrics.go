package pullthrough

import "github.com/prometheus/client_golang/prometheus"

// metrics count reads by their result.
type metrics struct{ total *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_upstream_cache_total",
		Help: "Reads of tags, manifests and blobs with upstream_cache, by kind and result: hit (kept), stale (kept, but the registry could not be asked about it), miss (the registry was asked).",
	}, []string{"kind", "result"})}
	for _, kind := range []string{kindTag, kindManifest, kindBlob} {
		for _, result := range []string{"hit", "stale", "miss"} {
			m.total.WithLabelValues(kind, result)
		}
	}
	reg.MustRegister(m.total)
	return m
}

func (m metrics) kept(kind string, stale bool) {
	result := "hit"
	if stale {
		result = "stale"
	}
	m.total.WithLabelValues(kind, result).Inc()
}

func (m metrics) missed(kind string) { m.total.WithLabelValues(kind, "miss").Inc() }
