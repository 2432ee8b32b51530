package keyless

import "testing"

// FuzzToken checks that no file causes a panic.
func FuzzToken(f *testing.F) {
	f.Add([]byte("e30.eyJpc3MiOiJpIiwic3ViIjoicyIsImV4cCI6MX0.AAAA"))
	f.Add([]byte(".."))
	f.Fuzz(func(t *testing.T, raw []byte) {
		token, err := parseToken(raw)
		if err == nil && token.who(Options{}) == "" {
			t.Error("a valid token has no identity")
		}
	})
}

// FuzzIssued checks that no response of a certificate authority causes a panic.
func FuzzIssued(f *testing.F) {
	f.Add([]byte(`{"signedCertificateEmbeddedSct":{"chain":{"certificates":["-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"]}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if cert, err := parseIssued(raw); err == nil && cert == nil {
			t.Error("no certificate was returned")
		}
	})
}
