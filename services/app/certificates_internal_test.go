package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// writeCertificate writes a certificate that expires at a time, and its key.
func writeCertificate(t *testing.T, certFile, keyFile string, end time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{keyFile: {Type: "PRIVATE KEY", Bytes: der}, certFile: {Type: "CERTIFICATE", Bytes: cert}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCertificates checks what is reported of a certificate near its expiry, and after it was renewed.
func TestCertificates(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	c, end := newCertificates(), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if _, err := c.load("tls_cert_file", cert, key); err == nil {
		t.Error("a missing certificate was loaded")
	}
	writeCertificate(t, cert, key, end)
	if _, err := c.load("tls_cert_file", cert, key); err != nil {
		t.Fatal(err)
	}
	for left, want := range map[time.Duration]string{
		8 * 24 * time.Hour: "", 6 * 24 * time.Hour: "the certificate of tls_cert_file expires on 2026-03-01", -time.Hour: "the certificate of tls_cert_file expired on 2026-03-01",
	} {
		c.now = func() time.Time { return end.Add(-left) }
		got := ""
		if err := c.check(t.Context()); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s before its expiry: %q, want %q", left, got, want)
		}
	}
	exported := func(end time.Time) string {
		return "# HELP slipway_certificate_expiry_seconds Expiry of a certificate as Unix time, by the setting that names it.\n" +
			"# TYPE slipway_certificate_expiry_seconds gauge\n" +
			fmt.Sprintf("slipway_certificate_expiry_seconds{setting=\"tls_cert_file\"} %d\n", end.Unix())
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(exported(end))); err != nil {
		t.Error(err)
	}
	writeCertificate(t, cert, key, end.AddDate(1, 0, 0))
	if err := os.Chtimes(cert, time.Time{}, end); err != nil { // the file may have been written within one tick of the clock
		t.Fatal(err)
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(exported(end.AddDate(1, 0, 0)))); err != nil {
		t.Error(err)
	}
}
