package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"time"
)

// Trust makes c believe the certificates of a test's own https servers.
func (c *Client) Trust(pool *x509.CertPool) {
	c.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
}

// Impatient makes c wait no longer than d for an answer.
func (c *Client) Impatient(d time.Duration) {
	c.http.Transport.(*http.Transport).ResponseHeaderTimeout = d
}

// Hurry makes c wait no longer than a few milliseconds before it tries again.
func (c *Control) Hurry() { c.pause = time.Millisecond }

// Passable says where a client may be sent by a registry.
func Passable(c *Client, ctx context.Context, host string, target *url.URL) (*url.URL, error) { //nolint:revive // the client is what is tested
	return c.passable(ctx, Repository{Host: host}, target)
}
