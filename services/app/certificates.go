package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/rpc"
)

// certificateSoon is how long before its expiry a certificate is reported in /readyz.
const certificateSoon = 7 * 24 * time.Hour

// certificates holds the certificates that this process uses, by the setting that names them. It
// exports the expiry of each when scraped.
type certificates struct {
	mu  sync.Mutex
	all map[string]*rpc.Certificate
	now func() time.Time
}

func newCertificates() *certificates {
	return &certificates{all: map[string]*rpc.Certificate{}, now: time.Now}
}

// load reads the certificate of a setting.
func (c *certificates) load(setting, certFile, keyFile string) (*rpc.Certificate, error) {
	cert, err := rpc.LoadCertificate(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[setting] = cert
	return cert, nil
}

// ends returns the expiry of each certificate by its setting.
func (c *certificates) ends() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]time.Time, len(c.all))
	for setting, cert := range c.all {
		if end, err := cert.NotAfter(); err == nil { // always: load has read it
			out[setting] = end
		}
	}
	return out
}

// check returns an error that names a certificate that has expired or expires soon.
func (c *certificates) check(context.Context) error {
	ends := c.ends()
	for _, setting := range slices.Sorted(maps.Keys(ends)) {
		switch left := ends[setting].Sub(c.now()); {
		case left <= 0:
			return fmt.Errorf("the certificate of %s expired on %s", setting, ends[setting].Format(time.DateOnly))
		case left < certificateSoon:
			return fmt.Errorf("the certificate of %s expires on %s", setting, ends[setting].Format(time.DateOnly))
		}
	}
	return nil
}

//nolint:gochecknoglobals // a description, never changed
var descCertificate = prometheus.NewDesc("slipway_certificate_expiry_seconds", "Expiry of a certificate as Unix time, by the setting that names it.", []string{"setting"}, nil)

// Describe implements prometheus.Collector.
func (c *certificates) Describe(ch chan<- *prometheus.Desc) { ch <- descCertificate }

// Collect implements prometheus.Collector.
func (c *certificates) Collect(ch chan<- prometheus.Metric) {
	for setting, end := range c.ends() {
		ch <- prometheus.MustNewConstMetric(descCertificate, prometheus.GaugeValue, float64(end.Unix()), setting)
	}
}
