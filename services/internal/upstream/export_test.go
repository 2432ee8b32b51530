package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"time"
)

// Trust makes c trust the certificates of a test's https servers.
func (c *Client) Trust(pool *x509.CertPool) {
	c.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
}

// Impatient limits the time that c waits for a response to d.
func (c *Client) Impatient(d time.Duration) {
	c.http.Transport.(*http.Transport).ResponseHeaderTimeout = d
}

// ShortenPauses limits the pause before retries to a few milliseconds.
func (c *Control) ShortenPauses() { c.pause = time.Millisecond }

// Passable exports passable.
func Passable(c *Client, ctx context.Context, host string, target *url.URL) (*url.URL, error) { //nolint:revive // the client is what is tested
	return c.passable(ctx, Repository{Host: host}, target)
}
