package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// A Certificate is a certificate and its key, read from files. It is read again when the
// file changes, so that it can be renewed while the process runs. It is safe for concurrent
// use.
type Certificate struct {
	certFile, keyFile string

	mu      sync.Mutex
	cert    *tls.Certificate
	changed time.Time
}

// LoadCertificate reads a certificate and its key.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if _, err := c.current(); err != nil {
		return nil, err
	}
	return c, nil
}

// Validity returns the times between which the certificate is valid.
func (c *Certificate) Validity() (begin, end time.Time, err error) {
	cert, err := c.current()
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	return cert.Leaf.NotBefore, cert.Leaf.NotAfter, nil
}

// current returns the certificate. If the files cannot be read, e.g. because they are
// incomplete, it returns the last valid one.
func (c *Certificate) current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.certFile)
	if err == nil && c.cert != nil && info.ModTime().Equal(c.changed) {
		return c.cert, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile)
	}
	if err != nil {
		if c.cert != nil {
			return c.cert, nil
		}
		return nil, fmt.Errorf("reading the certificate %s: %w", c.certFile, err)
	}
	c.cert, c.changed = &pair, info.ModTime()
	return c.cert, nil
}

// ServerTLS returns the configuration of a public listener.
func (c *Certificate) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current() },
	}
}

// MutualTLS returns the configuration for connections between roles, for both sides.
// Certificates must be signed by an authority in caFile.
func (c *Certificate) MutualTLS(caFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(caFile + " contains no PEM certificate")
	}
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		ClientAuth:           tls.RequireAndVerifyClientCert,
		ClientCAs:            pool,
		RootCAs:              pool,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.current() },
	}, nil
}
