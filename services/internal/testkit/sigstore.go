package testkit

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A Sigstore is a genuine Fulcio and a genuine timestamp authority, which end with the test.
type Sigstore struct {
	Fulcio, Timestamps *Server
	// TimestampURL is the address of the timestamp authority with its path.
	TimestampURL string
	// Issuer is the provider of tokens.
	Issuer *Issuer
	// Root is a file with the trusted root, and Token one with a token of a Kubernetes service
	// account, which Write replaces.
	Root, Token string
}

// StartSigstore runs the programs in the folder bin of clients, which services/tools/clients.sh has built.
func StartSigstore(t testing.TB, clients string) *Sigstore {
	t.Helper()
	dir := shortDir(t)
	i := NewIssuer(t)
	s := &Sigstore{Issuer: i, Root: filepath.Join(dir, "root.json"), Token: filepath.Join(dir, "token")}
	settings := filepath.Join(dir, "fulcio.yml")
	text := fmt.Sprintf("oidc-issuers:\n  %[1]s:\n    issuer-url: %[1]s\n    client-id: sigstore\n    type: kubernetes\n", i.URL)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	port := FreePort(t)
	s.Fulcio = &Server{
		URL: "http://127.0.0.1:" + port, name: filepath.Join(clients, "bin", "fulcio"),
		args: []string{
			"serve", "--ca=ephemeralca", "--ct-log-url=", "--host=127.0.0.1", "--port=" + port, "--grpc-host=127.0.0.1", "--grpc-port=" + FreePort(t),
			"--metrics-port=" + FreePort(t), "--legacy-unix-domain-socket=" + filepath.Join(dir, "fulcio"), "--config-path=" + settings,
		},
		ready: accepts(port),
	}
	s.Fulcio.begin(t)
	port = FreePort(t)
	s.Timestamps = &Server{
		URL: "http://127.0.0.1:" + port, name: filepath.Join(clients, "bin", "timestamp-server"),
		args:  []string{"serve", "--host=127.0.0.1", "--port=" + port, "--timestamp-signer=memory", "--disable-ntp-monitoring"},
		ready: accepts(port),
	}
	s.Timestamps.begin(t)
	s.TimestampURL = s.Timestamps.URL + "/api/v1/timestamp"
	s.WriteRoot(t)
	s.WriteToken(t, time.Hour)
	return s
}

// WriteRoot stores the trusted root.
func (s *Sigstore) WriteRoot(t testing.TB) {
	t.Helper()
	var bundle struct {
		Chains []struct{ Certificates []string }
	}
	if err := json.Unmarshal(get(t, s.Fulcio.URL+"/api/v2/trustBundle"), &bundle); err != nil || len(bundle.Chains) == 0 {
		t.Fatalf("the authorities of Fulcio: %v", err)
	}
	var ca []byte
	for _, c := range bundle.Chains[0].Certificates {
		ca = append(ca, c...)
	}
	raw, err := TrustedRoot(certificates(t, ca), certificates(t, get(t, s.TimestampURL+"/certchain")))
	if err == nil {
		err = os.WriteFile(s.Root, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// WriteToken replaces the token by one with a lifetime.
func (s *Sigstore) WriteToken(t testing.TB, lifetime time.Duration) {
	t.Helper()
	now := time.Now()
	token, err := s.Issuer.Sign(map[string]any{
		"iss": s.Issuer.URL, "aud": "sigstore", "sub": "system:serviceaccount:slipway:slipway", "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(lifetime).Unix(),
		"kubernetes.io": map[string]any{"namespace": "slipway", "serviceaccount": map[string]string{"name": "slipway", "uid": "1"}},
	})
	if err == nil {
		err = os.WriteFile(s.Token, []byte(token), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, at string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s, %v", at, resp.Status, raw, err)
	}
	return raw
}

// certificates parses PEM.
func certificates(t testing.TB, raw []byte) (out []*x509.Certificate) {
	t.Helper()
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			return out
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
}
