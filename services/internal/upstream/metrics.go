package upstream

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// other is the label of values without a label of their own, whose number is not limited.
const other = "other"

// metrics measures the responses of other registries.
type metrics struct {
	// hosts are the registries with their own label. Users may name any number of others.
	hosts   map[string]bool
	answers *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// wellKnown returns public registries with their own label.
func wellKnown() []string {
	return []string{
		"docker.io", "quay.io", "ghcr.io", "gcr.io", "public.ecr.aws", "registry.k8s.io", "mcr.microsoft.com", "nvcr.io",
		"registry.gitlab.com", "docker.elastic.co", "registry.access.redhat.com",
	}
}

func newMetrics(o Options) metrics {
	m := metrics{
		hosts: map[string]bool{},
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_upstream_answers_total",
			Help: "Answers of other registries, by registry, kind of request and status code; the code error means no answer.",
		}, []string{"host", "kind", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "slipway_upstream_seconds",
			Help:    "Time until other registries began to answer, with all attempts, by registry and kind of request.",
			Buckets: []float64{.005, .02, .1, .3, 1, 3, 10, 30},
		}, []string{"host", "kind"}),
	}
	for _, list := range [][]string{wellKnown(), o.Plain, o.Known} {
		for _, h := range list {
			m.hosts[h] = true
		}
	}
	o.Metrics.MustRegister(m.answers, m.seconds)
	return m
}

// host returns the label of a registry.
func (m metrics) host(name string) string {
	if m.hosts[name] {
		return name
	}
	return other
}

func (m metrics) answered(host, kind string, code int) {
	label := strconv.Itoa(code)
	if http.StatusText(code) == "" {
		label = other // registries may send arbitrary codes
	}
	m.answers.WithLabelValues(m.host(host), kind, label).Inc()
}

func (m metrics) failed(host, kind string) {
	m.answers.WithLabelValues(m.host(host), kind, "error").Inc()
}

func (m metrics) observe(host, kind string, since time.Time) {
	m.seconds.WithLabelValues(m.host(host), kind).Observe(time.Since(since).Seconds())
}
