// Package keyless signs with short-lived keys, whose certificates Fulcio issues for an OpenID Connect
// token of this server, e.g. of a Kubernetes service account. A timestamp authority (RFC 3161) states
// when each signature was made, since a certificate is valid for some minutes only. No transparency log
// is used, so that private images remain private.
package keyless

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/digitorus/timestamp"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/attest/trust"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Options are what a Signer uses.
type Options struct {
	// Fulcio is the address of the certificate authority, e.g. https://fulcio.example.org.
	Fulcio string
	// Timestamp is the address of the timestamp authority, with its path.
	Timestamp string
	// TokenFile has the server's OpenID Connect token. Another program replaces it before it expires.
	TokenFile string
	// Root verifies each signature before it is returned, since it is stored permanently.
	Root *trust.Root
	// Transport sends requests.
	Transport http.RoundTripper
	// Now returns the time.
	Now func() time.Time
}

// A Signer is an attest.Certifier. It is safe for concurrent use.
type Signer struct {
	o    Options
	http *http.Client
	// turns has as many places as there may be requests for timestamps.
	turns chan struct{}
	// last is the last identity; nil before the first.
	last atomic.Pointer[string]
	// current holds the certified key. A receiver must send it back.
	current chan certified
}

// A certified is a key and its certificate; the zero value for none.
type certified struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	who  string
}

// New returns a signer. It sends no request.
func New(o Options) *Signer {
	s := &Signer{
		o: o, turns: make(chan struct{}, limits.SigningConnections), current: make(chan certified, 1),
		// A redirect could send the token to another server.
		http: &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	s.current <- certified{}
	return s
}

// Identity implements attest.Certifier.
func (s *Signer) Identity(context.Context) (string, error) {
	t, err := s.token()
	if err != nil {
		// Stored signatures do not need the token, which may be being replaced.
		if last := s.last.Load(); last != nil {
			return *last, nil
		}
		return "", fault.Unavailable.New("Images cannot be signed right now", err)
	}
	who := t.who(s.o)
	s.last.Store(&who)
	return who, nil
}

// Certify implements attest.Certifier. A request of it takes at most limits.CertificateWait or
// limits.TimestampWait.
func (s *Signer) Certify(ctx context.Context, message []byte) (attest.Certified, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return attest.Certified{}, fault.Unavailable.New("Images cannot be signed right now: other signatures are being made", ctx.Err())
	}
	c, err := s.key(ctx)
	if err != nil {
		return attest.Certified{}, fmt.Errorf("signing_fulcio: %w", err)
	}
	out := attest.Certified{Certificate: c.cert.Raw}
	if out.Signature, err = crypto.SignMessage(c.key, rand.Reader, message, crypto.SHA256); err != nil {
		return out, err
	}
	raw, err := s.timestamp(ctx, out.Signature, c.cert)
	if err != nil {
		return out, fmt.Errorf("signing_timestamp: %w", err)
	}
	out.Timestamps = [][]byte{raw}
	if _, err := s.o.Root.Verify(out, message); err != nil {
		return out, fmt.Errorf("signing_trusted_root does not accept the signature: %w", err)
	}
	return out, nil
}

// key returns the certified key. It replaces the key when its certificate expires soon, or when the
// identity in the token has changed.
func (s *Signer) key(ctx context.Context) (certified, error) {
	var c certified
	select {
	case c = <-s.current:
	case <-ctx.Done():
		return c, ctx.Err()
	}
	defer func() { s.current <- c }()
	t, err := s.token()
	if err != nil {
		return certified{}, err
	}
	if c.cert != nil && c.who == t.who(s.o) && c.cert.NotAfter.Sub(s.o.Now()) > limits.CertificateRest {
		return c, nil
	}
	made, err := s.certify(ctx, t)
	if err != nil {
		return certified{}, err
	}
	c = made
	return c, nil
}

// certify gets a certificate for a new key.
func (s *Signer) certify(ctx context.Context, t token) (certified, error) {
	if !t.Expires.IsZero() && !s.o.Now().Before(t.Expires) {
		return certified{}, fmt.Errorf("the token in %s expired at %s, and was not replaced", s.o.TokenFile, t.Expires.UTC().Format(time.RFC3339))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certified{}, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return certified{}, err
	}
	body, err := json.Marshal(map[string]any{
		"credentials":               map[string]string{"oidcIdentityToken": t.raw},
		"certificateSigningRequest": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}),
	})
	if err != nil {
		return certified{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.CertificateWait)
	defer cancel()
	raw, err := s.post(ctx, strings.TrimRight(s.o.Fulcio, "/")+"/api/v2/signingCert", "application/json", body, t.raw)
	if err != nil {
		return certified{}, err
	}
	cert, err := parseIssued(raw)
	if err != nil {
		return certified{}, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return certified{}, errors.New("the certificate is for another key")
	}
	if rest := cert.NotAfter.Sub(s.o.Now()); rest <= limits.CertificateRest {
		return certified{}, fmt.Errorf("the certificate is only valid until %s: compare the clocks of both servers", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return certified{key: key, cert: cert, who: t.who(s.o)}, nil
}

// parseIssued returns the first certificate of a response of Fulcio (fulcio.proto, SigningCertificate).
func parseIssued(raw []byte) (*x509.Certificate, error) {
	type chain struct {
		Chain struct {
			Certificates []string `json:"certificates"`
		} `json:"chain"`
	}
	var p struct {
		Embedded chain `json:"signedCertificateEmbeddedSct"`
		Detached chain `json:"signedCertificateDetachedSct"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("the response is malformed: %w", err)
	}
	list := append(p.Embedded.Chain.Certificates, p.Detached.Chain.Certificates...)
	if len(list) == 0 {
		return nil, errors.New("the response has no certificate")
	}
	block, _ := pem.Decode([]byte(list[0]))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the response has a malformed certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the response has a malformed certificate: %w", err)
	}
	return cert, nil
}

// timestamp returns a timestamp of a signature, which is within the validity of the certificate.
func (s *Signer) timestamp(ctx context.Context, signature []byte, cert *x509.Certificate) ([]byte, error) {
	sum := sha256.Sum256(signature)
	nonce, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	body, err := (&timestamp.Request{HashAlgorithm: crypto.SHA256, HashedMessage: sum[:], Nonce: nonce, Certificates: true}).Marshal()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.TimestampWait)
	defer cancel()
	raw, err := s.post(ctx, s.o.Timestamp, "application/timestamp-query", body, "")
	if err != nil {
		return nil, err
	}
	t, err := timestamp.ParseResponse(raw)
	if err != nil {
		return nil, fmt.Errorf("the response is malformed: %w", err)
	}
	switch {
	case t.HashAlgorithm != crypto.SHA256 || !bytes.Equal(t.HashedMessage, sum[:]):
		return nil, errors.New("the timestamp is about something else")
	case t.Nonce == nil || t.Nonce.Cmp(nonce) != 0:
		return nil, errors.New("the timestamp is an earlier one")
	case t.Time.Before(cert.NotBefore) || t.Time.After(cert.NotAfter):
		return nil, fmt.Errorf("the timestamp is %s, and the certificate of signing_fulcio is valid from %s to %s: compare the clocks of both servers",
			t.Time.UTC().Format(time.RFC3339), cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return raw, nil
}

// post sends a request and returns the response. Errors do not contain the secret of the request.
func (s *Signer) post(ctx context.Context, to, kind string, body []byte, secret string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limits.CertificateAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the response of %s: %w", to, err)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated:
		text := string(raw)
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
		return nil, fmt.Errorf("%s responded with %s: %s", to, resp.Status, fault.Quote(text))
	case len(raw) > limits.CertificateAnswer:
		return nil, fmt.Errorf("the response of %s is larger than %d bytes", to, limits.CertificateAnswer)
	}
	return raw, nil
}
