package app

import (
	"context"
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

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/metrics"
)

// writeCertificate writes a certificate that expires at a time after a lifetime, and its key.
func writeCertificate(t *testing.T, certFile, keyFile string, end time.Time, lifetime time.Duration) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-lifetime), NotAfter: end}
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
	const day = 24 * time.Hour
	writeCertificate(t, cert, key, end, 90*day)
	if _, err := c.load("tls_cert_file", cert, key); err != nil {
		t.Fatal(err)
	}
	reports := func(at time.Time) string {
		c.now = func() time.Time { return at }
		if err := c.check(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	}
	for left, want := range map[time.Duration]string{
		8 * day: "", 6 * day: "the certificate of tls_cert_file expires on 2026-03-01", -time.Hour: "the certificate of tls_cert_file expired on 2026-03-01",
	} {
		if got := reports(end.Add(-left)); got != want {
			t.Errorf("%s before its expiry: %q, want %q", left, got, want)
		}
	}
	exported := func(end time.Time, lifetime time.Duration) string {
		return "# HELP slipway_certificate_expiry_seconds Expiry of a certificate as Unix time, by the setting that names it.\n" +
			"# TYPE slipway_certificate_expiry_seconds gauge\n" +
			fmt.Sprintf("slipway_certificate_expiry_seconds{setting=\"tls_cert_file\"} %d\n", end.Unix()) +
			"# HELP slipway_certificate_lifetime_seconds Time from the begin of the validity of a certificate to its expiry, by the setting that names it.\n" +
			"# TYPE slipway_certificate_lifetime_seconds gauge\n" +
			fmt.Sprintf("slipway_certificate_lifetime_seconds{setting=\"tls_cert_file\"} %d\n", int(lifetime.Seconds()))
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(exported(end, 90*day))); err != nil {
		t.Error(err)
	}
	end = end.AddDate(1, 0, 0)
	writeCertificate(t, cert, key, end, 8*day)
	if err := os.Chtimes(cert, time.Time{}, end); err != nil { // the file may have been written within one tick of the clock
		t.Fatal(err)
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(exported(end, 8*day))); err != nil {
		t.Error(err)
	}
	if early, late := reports(end.Add(-25*time.Hour)), reports(end.Add(-23*time.Hour)); early != "" || late == "" {
		t.Errorf("of a certificate for eight days: %q before its last day, then %q", early, late)
	}
}

// TestHealth checks that a certificate near its expiry is reported, with dependencies that work and fail.
func TestHealth(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	e, end := &env{certificates: newCertificates()}, time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	writeCertificate(t, cert, key, end, 90*24*time.Hour)
	if _, err := e.certificates.load("tls_cert_file", cert, key); err != nil {
		t.Fatal(err)
	}
	e.allChecks = func() []check {
		return []check{newCheck("certificates", optional, e.certificates.check), newCheck("database", required, func(context.Context) error { return nil })}
	}
	want := metrics.Health{
		Dependencies: []metrics.Dependency{
			{Name: "certificates", Problem: "the certificate of tls_cert_file expires on " + end.Format(time.DateOnly)}, {Name: "database", Required: true},
		},
		Certificates: []metrics.Certificate{{Setting: "tls_cert_file", End: end}},
	}
	if diff := cmp.Diff(want, e.health(t.Context())); diff != "" {
		t.Errorf("the state differs (-want +got):\n%s", diff)
	}
}
