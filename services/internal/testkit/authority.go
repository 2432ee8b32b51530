package testkit

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
)

// The identity that an Authority certifies, and its provider.
const (
	AuthorityName   = "https://kubernetes.io/namespaces/slipway/serviceaccounts/slipway"
	AuthorityIssuer = "https://kubernetes.example.org"
)

// An Authority is a certificate authority with the API of Fulcio, and at /timestamp a timestamp
// authority. Tests of errors and of times use it; others use the genuine programs.
type Authority struct {
	*httptest.Server
	// Root is the trusted root with both, as JSON.
	Root []byte

	mu sync.Mutex
	// change alters the next responses.
	change AuthorityChange
	issued int
	keys   map[string]*ecdsa.PrivateKey
	certs  map[string]*x509.Certificate
}

// An AuthorityChange alters the responses of an Authority.
type AuthorityChange struct {
	// Lifetime is that of certificates; by default 10 minutes.
	Lifetime time.Duration
	// Shift is added to the time of timestamps.
	Shift time.Duration
	// Certificates and Timestamps replace responses; nil for none.
	Certificates, Timestamps http.HandlerFunc
	// Names replaces AuthorityName.
	Names []string
	// OtherKey certifies another key than the requested one.
	OtherKey bool
	// OtherNonce and OtherMessage make timestamps about other requests.
	OtherNonce, OtherMessage bool
}

// Change alters the responses from now on.
func (a *Authority) Change(c AuthorityChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.change = c
}

// Issued returns the number of issued certificates.
func (a *Authority) Issued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.issued
}

// NewAuthority starts an Authority that ends with the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{keys: map[string]*ecdsa.PrivateKey{}, certs: map[string]*x509.Certificate{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(a.create("ca", "", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}))
	must(a.create("tsa-ca", "", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}))
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	must(err)
	must(a.create("tsa", "tsa-ca", &x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}},
	}))
	a.Root, err = TrustedRoot([]*x509.Certificate{a.certs["ca"]}, []*x509.Certificate{a.certs["tsa"], a.certs["tsa-ca"]})
	must(err)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v2/signingCert", a.certify)
	mux.HandleFunc("POST /timestamp", a.timestamp)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

// create makes a certificate for years, of a new key.
func (a *Authority) create(name, by string, c *x509.Certificate) (err error) {
	if a.keys[name], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	c.SerialNumber, c.Subject = big.NewInt(int64(len(a.keys))), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)
	parent, key := c, a.keys[name]
	if by != "" {
		parent, key = a.certs[by], a.keys[by]
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, a.keys[name].Public(), key)
	if err != nil {
		return err
	}
	a.certs[name], err = x509.ParseCertificate(raw)
	return err
}

// TrustedRoot returns a trusted root of Sigstore with one certificate authority and one timestamp
// authority: chains from leaf to root.
func TrustedRoot(ca, tsa []*x509.Certificate) ([]byte, error) {
	authority := func(chain []*x509.Certificate) []any {
		var list []any
		for _, c := range chain {
			list = append(list, map[string]any{"rawBytes": c.Raw})
		}
		return []any{map[string]any{
			"subject": map[string]string{"organization": "test", "commonName": "test"}, "uri": "https://authority.example.org",
			"certChain": map[string]any{"certificates": list}, "validFor": map[string]any{"start": chain[len(chain)-1].NotBefore.UTC().Format(time.RFC3339)},
		}}
	}
	return json.Marshal(map[string]any{
		"mediaType":              "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"certificateAuthorities": authority(ca), "timestampAuthorities": authority(tsa),
	})
}

func (a *Authority) certify(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.change.Certificates != nil {
		a.change.Certificates(w, r)
		return
	}
	var p struct {
		Credentials struct{ OidcIdentityToken string }
		CSR         []byte `json:"certificateSigningRequest"`
	}
	fail := func(err error) { http.Error(w, err.Error(), http.StatusBadRequest) }
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		fail(err)
		return
	}
	block, _ := pem.Decode(p.CSR)
	if block == nil || p.Credentials.OidcIdentityToken == "" {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		fail(err)
		return
	}
	made, err := a.issue(csr.PublicKey)
	if err != nil {
		fail(err)
		return
	}
	a.issued++
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}))
	_ = json.NewEncoder(w).Encode(map[string]any{ // fails if the client disconnected
		"signedCertificateDetachedSct": map[string]any{"chain": map[string]any{"certificates": []string{text}}},
	})
}

func (a *Authority) issue(key crypto.PublicKey) ([]byte, error) {
	issuer, err := asn1.Marshal(AuthorityIssuer)
	if err != nil {
		return nil, err
	}
	lifetime := a.change.Lifetime
	if lifetime == 0 {
		lifetime = 10 * time.Minute
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(int64(1000 + a.issued)), NotBefore: time.Now().Add(-time.Second), NotAfter: time.Now().Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuer}},
	}
	names := a.change.Names
	if names == nil {
		names = []string{AuthorityName}
	}
	for _, n := range names {
		u, err := url.Parse(n)
		if err != nil {
			return nil, err
		}
		c.URIs = append(c.URIs, u)
	}
	if a.change.OtherKey {
		key = a.keys["tsa"].Public()
	}
	return x509.CreateCertificate(rand.Reader, c, a.certs["ca"], key, a.keys["ca"])
}

func (a *Authority) timestamp(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.change.Timestamps != nil {
		a.change.Timestamps(w, r)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req, err := timestamp.ParseRequest(raw)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	made := timestamp.Timestamp{
		HashAlgorithm: req.HashAlgorithm, HashedMessage: req.HashedMessage, Nonce: req.Nonce, Time: time.Now().Add(a.change.Shift),
		Policy: asn1.ObjectIdentifier{1, 2, 3}, AddTSACertificate: req.Certificates,
	}
	if a.change.OtherNonce {
		made.Nonce = big.NewInt(1)
	}
	if a.change.OtherMessage {
		made.HashedMessage = make([]byte, len(req.HashedMessage))
	}
	out, err := made.CreateResponseWithOpts(a.certs["tsa"], a.keys["tsa"], crypto.SHA256)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/timestamp-reply")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(out) // fails if the client disconnected
}
