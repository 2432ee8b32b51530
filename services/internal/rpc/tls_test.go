package rpc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// An authority signs certificates for 127.0.0.1. file is the path of its own certificate.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	a := authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	a.key, der = sign(t, a.cert, a.cert, nil)
	a.cert, _ = x509.ParseCertificate(der)
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// sign returns a new key and its certificate. If by is nil, the certificate is self-signed.
func sign(t testing.TB, what, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, what, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pair writes a certificate that is signed by a and names roles, and its key, to dir.
func (a authority) pair(t testing.TB, dir string, serial int64, roles ...string) (cert, key string) {
	t.Helper()
	var names []*url.URL
	for _, role := range roles {
		names = append(names, &url.URL{Scheme: "spiffe", Host: "slipway", Path: "/" + role})
	}
	k, der := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), URIs: names, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, cert, "CERTIFICATE", der)
	writePEM(t, key, "EC PRIVATE KEY", raw)
	return cert, key
}

// mutual returns the configuration of a role whose certificate is signed by a, and that
// trusts the other authority.
func (a authority) mutual(t testing.TB, trusted authority, roles ...string) *tls.Config {
	t.Helper()
	c, err := rpc.LoadCertificate(a.pair(t, t.TempDir(), 2, roles...))
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.MutualTLS(trusted.file)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	trusted, foreign := newAuthority(t), newAuthority(t)
	h := newHarness(t, rpc.ServerOptions{TLS: trusted.mutual(t, trusted)})
	addr := h.listen(t)
	noCertificate := trusted.mutual(t, trusted)
	noCertificate.GetClientCertificate = nil
	for _, tc := range []struct {
		name string
		tls  *tls.Config
		want bool
	}{
		{"the same authority", trusted.mutual(t, trusted, "registry"), true},
		{"a client of another authority", foreign.mutual(t, trusted), false},
		{"a client that trusts another authority", trusted.mutual(t, foreign), false},
		{"a client without a certificate", noCertificate, false},
		{"a client without TLS", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := call(t.Context(), dial(t, addr, rpc.DialOptions{TLS: tc.tls}))
			if tc.want && err != nil || !tc.want && !errors.Is(err, fault.Unavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInvalidCertificateFiles(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.pair(t, t.TempDir(), 2)
	for _, tc := range []struct{ name, cert, key string }{
		{"missing", cert + ".none", key}, {"no key", cert, key + ".none"}, {"swapped", key, cert},
		{"the key of another certificate", a.file, key},
	} {
		if c, err := rpc.LoadCertificate(tc.cert, tc.key); err == nil || c != nil {
			t.Errorf("%s: got %v, %v", tc.name, c, err)
		}
	}
	c, err := rpc.LoadCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, ca := range []string{a.file + ".none", key} {
		if _, err := c.MutualTLS(ca); err == nil {
			t.Errorf("MutualTLS accepted %s", ca)
		}
	}
}

func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	cert, key := a.pair(t, dir, 10)
	c, err := rpc.LoadCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		got, err := c.ServerTLS().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.SerialNumber.Int64()
	}
	age := func(d time.Duration) {
		t.Helper()
		if err := os.Chtimes(cert, time.Time{}, time.Now().Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name   string
		change func()
		want   int64
	}{
		{"at first", func() {}, 10},
		{"renewed", func() { a.pair(t, dir, 11); age(time.Minute) }, 11},
		{"half-written", func() { _ = os.WriteFile(cert, []byte("-----BEGIN"), 0o600); age(2 * time.Minute) }, 11},
		{"deleted", func() { _ = os.Remove(cert) }, 11},
		{"restored", func() { a.pair(t, dir, 12); age(3 * time.Minute) }, 12},
	} {
		step.change()
		if got := serial(); got != step.want {
			t.Errorf("%s: serves certificate %d, want %d", step.name, got, step.want)
		}
	}
}
