package vulns

import "github.com/prometheus/client_golang/prometheus"

//nolint:gochecknoglobals // descriptions, never changed
var (
	descAge = prometheus.NewDesc("slipway_inspect_scan_data_age_seconds",
		"Time since the newest record about a vulnerability was changed; only if scan_database is set and its data is loaded.", nil, nil)
	descRecords = prometheus.NewDesc("slipway_inspect_scan_data_records",
		"Number of records about vulnerabilities; only if scan_database is set and its data is loaded.", nil, nil)
	descChecked = prometheus.NewDesc("slipway_inspect_scan_data_since_check_seconds",
		"Time since scan_database was last read without an error; only if it is set and its data is loaded.", nil, nil)
)

func (s *Source) register() {
	s.outcomes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_inspect_scan_data_refreshes_total", Help: "How often scan_database was read, by outcome: imported, unchanged or failed.",
	}, []string{"outcome"})
	for _, outcome := range []string{"imported", "unchanged", "failed"} {
		s.outcomes.WithLabelValues(outcome)
	}
	s.Metrics.MustRegister(s.outcomes, s)
}

// Describe implements prometheus.Collector.
func (s *Source) Describe(ch chan<- *prometheus.Desc) {
	ch <- descAge
	ch <- descRecords
	ch <- descChecked
}

// Collect implements prometheus.Collector.
func (s *Source) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	l, checked := s.current, s.checked
	s.mu.Unlock()
	if l == nil {
		return
	}
	now := s.Now()
	ch <- prometheus.MustNewConstMetric(descAge, prometheus.GaugeValue, now.Sub(l.Time()).Seconds())
	ch <- prometheus.MustNewConstMetric(descRecords, prometheus.GaugeValue, float64(l.Records()))
	ch <- prometheus.MustNewConstMetric(descChecked, prometheus.GaugeValue, now.Sub(checked).Seconds())
}
