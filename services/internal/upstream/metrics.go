package upstream

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// other stands in metrics for what could be any number of things.
const other = "other"

// metrics count what other registries answer.
type metrics struct {
	// hosts are the registries that are told apart; callers may name any number.
	hosts   map[string]bool
	answers *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// wellKnown are public registries that are told apart in metrics.
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

// host is how metrics call a registry.
func (m metrics) host(name string) string {
	if m.hosts[name] {
		return name
	}
	return other
}

func (m metrics) answered(host, kind string, code int) {
	label := strconv.Itoa(code)
	if http.StatusText(code) == "" {
		label = other // a registry may invent codes
	}
	m.answers.WithLabelValues(m.host(host), kind, label).Inc()
}

func (m metrics) failed(host, kind string) {
	m.answers.WithLabelValues(m.host(host), kind, "error").Inc()
}

func (m metrics) took(host, kind string, since time.Time) {
	m.seconds.WithLabelValues(m.host(host), kind).Observe(time.Since(since).Seconds())
}
