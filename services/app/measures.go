package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// collected is a registry that knows what was registered, for the reference page.
type collected struct {
	*prometheus.Registry
	all []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (c *collected) Register(m prometheus.Collector) error {
	c.all = append(c.all, m)
	return c.Registry.Register(m)
}

// MustRegister implements prometheus.Registerer.
func (c *collected) MustRegister(all ...prometheus.Collector) {
	c.all = append(c.all, all...)
	c.Registry.MustRegister(all...)
}

// dependencies says how everything is that /readyz names, when it is scraped.
type dependencies struct{ app *App }

//nolint:gochecknoglobals // a description, never changed
var descUp = prometheus.NewDesc("slipway_dependency_up",
	"Whether what this process needs works: 1 or 0, by what /readyz calls it.", []string{"dependency", "required"}, nil)

// Describe implements prometheus.Collector.
func (d *dependencies) Describe(ch chan<- *prometheus.Desc) { ch <- descUp }

// Collect implements prometheus.Collector.
func (d *dependencies) Collect(ch chan<- prometheus.Metric) {
	for i, s := range d.app.states(context.Background()) {
		up, required := 0.0, "false"
		if s.OK {
			up = 1
		}
		if s.Required {
			required = "true"
		}
		ch <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, up, d.app.checks[i].name, required)
	}
}
