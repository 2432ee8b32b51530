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

// expiresSoon is how long before its expiry a certificate is reported in /readyz, at most. It is
// half of what the alert SlipwayCertificateExpires has.
const expiresSoon = 7 * 24 * time.Hour

// A validity is the time during which a certificate is valid.
type validity struct{ begin, end time.Time }

// soon is how long before its expiry a certificate is reported in /readyz: less for certificates
// that live only for days, which are renewed when a third of their lifetime is left.
func (v validity) soon() time.Duration { return min(expiresSoon, v.end.Sub(v.begin)/8) }

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

// validities returns the validity of each certificate by its setting.
func (c *certificates) validities() map[string]validity {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]validity, len(c.all))
	for setting, cert := range c.all {
		if begin, end, err := cert.Validity(); err == nil { // always: load has read it
			out[setting] = validity{begin, end}
		}
	}
	return out
}

// check returns an error that names a certificate that has expired or expires soon.
func (c *certificates) check(context.Context) error {
	all := c.validities()
	for _, setting := range slices.Sorted(maps.Keys(all)) {
		switch left := all[setting].end.Sub(c.now()); {
		case left <= 0:
			return fmt.Errorf("the certificate of %s expired on %s", setting, all[setting].end.Format(time.DateOnly))
		case left < all[setting].soon():
			return fmt.Errorf("the certificate of %s expires on %s", setting, all[setting].end.Format(time.DateOnly))
		}
	}
	return nil
}

//nolint:gochecknoglobals // descriptions, never changed
var (
	descCertificate = prometheus.NewDesc("slipway_certificate_expiry_seconds", "Expiry of a certificate as Unix time, by the setting that names it.", []string{"setting"}, nil)
	descLifetime    = prometheus.NewDesc("slipway_certificate_lifetime_seconds", "Time from the begin of the validity of a certificate to its expiry, by the setting that names it.", []string{"setting"}, nil)
)

// Describe implements prometheus.Collector.
func (c *certificates) Describe(ch chan<- *prometheus.Desc) {
	ch <- descCertificate
	ch <- descLifetime
}

// Collect implements prometheus.Collector.
func (c *certificates) Collect(ch chan<- prometheus.Metric) {
	for setting, v := range c.validities() {
		ch <- prometheus.MustNewConstMetric(descCertificate, prometheus.GaugeValue, float64(v.end.Unix()), setting)
		ch <- prometheus.MustNewConstMetric(descLifetime, prometheus.GaugeValue, v.end.Sub(v.begin).Seconds(), setting)
	}
}
