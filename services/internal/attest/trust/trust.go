// Package trust verifies signatures whose keys have certificates, with the authorities of a Sigstore
// trusted root. It does no I/O.
//
// A certificate of Fulcio is valid for some minutes. A signature is valid if a trusted timestamp
// authority states that it existed while the certificate and its authority were valid. Transparency
// logs and signed certificate timestamps are not verified.
package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"time"

	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	trustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/timestamp-authority/v2/pkg/verification"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/limits"
)

// A Root is a set of trusted authorities. It is safe for concurrent use.
type Root struct {
	certificates, timestamps []authority
}

// An authority is a chain of certificates that is trusted for some time.
type authority struct {
	leaf          *x509.Certificate // of a timestamp authority; nil for certificate authorities
	intermediates []*x509.Certificate
	root          *x509.Certificate
	// from and to limit when a signature may have been made; zero for no limit.
	from, to time.Time
}

// Media types of a trusted root.
const (
	mediaType01 = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"
	mediaType02 = "application/vnd.dev.sigstore.trustedroot.v0.2+json"
)

// Parse reads a trusted root: a TrustedRoot of sigstore/protobuf-specs as JSON.
func Parse(raw []byte) (*Root, error) {
	if len(raw) > limits.TrustedRoot {
		return nil, fmt.Errorf("the trusted root is larger than %d bytes", limits.TrustedRoot)
	}
	var p trustroot.TrustedRoot
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("the trusted root is malformed: %w", err)
	}
	if m := p.GetMediaType(); m != mediaType01 && m != mediaType02 {
		return nil, fmt.Errorf("its media type is %.100q instead of %q", m, mediaType01)
	}
	out := &Root{}
	for what, c := range map[string]struct {
		from []*trustroot.CertificateAuthority
		to   *[]authority
		leaf bool
	}{
		"certificate": {p.GetCertificateAuthorities(), &out.certificates, false}, "timestamp": {p.GetTimestampAuthorities(), &out.timestamps, true},
	} {
		if n := len(c.from); n == 0 || n > limits.TrustedAuthorities {
			return nil, fmt.Errorf("the trusted root has %d %s authorities; 1 to %d are allowed", n, what, limits.TrustedAuthorities)
		}
		for i, one := range c.from {
			a, err := parseAuthority(one, c.leaf)
			if err != nil {
				return nil, fmt.Errorf("the %s authority %d of the trusted root: %w", what, i+1, err)
			}
			*c.to = append(*c.to, a)
		}
	}
	return out, nil
}

// parseAuthority reads an authority, whose chain is in the order leaf to root.
func parseAuthority(p *trustroot.CertificateAuthority, hasLeaf bool) (authority, error) {
	a := authority{}
	list := p.GetCertChain().GetCertificates()
	if len(list) == 0 || len(list) > limits.TrustedChain {
		return a, fmt.Errorf("its chain has %d certificates; 1 to %d are allowed", len(list), limits.TrustedChain)
	}
	var chain []*x509.Certificate
	for _, c := range list {
		parsed, err := x509.ParseCertificate(c.GetRawBytes())
		if err != nil {
			return a, fmt.Errorf("a certificate is malformed: %w", err)
		}
		chain = append(chain, parsed)
	}
	a.root, chain = chain[len(chain)-1], chain[:len(chain)-1]
	if hasLeaf && len(chain) > 0 && !chain[0].IsCA {
		a.leaf, chain = chain[0], chain[1:]
	}
	a.intermediates = chain
	a.from, a.to = window(p.GetValidFor())
	return a, nil
}

func window(r *common.TimeRange) (from, to time.Time) {
	if s := r.GetStart(); s != nil {
		from = s.AsTime()
	}
	if e := r.GetEnd(); e != nil {
		to = e.AsTime()
	}
	return from, to
}

// isTrusted reports whether the authority is trusted at a time.
func (a authority) isTrusted(at time.Time) bool {
	return !at.Before(a.from) && (a.to.IsZero() || !at.After(a.to))
}

// An Identity is to whom a certificate was issued.
type Identity struct {
	// Name is the certificate's subject alternative name: a URI or an e-mail address, e.g.
	// https://kubernetes.io/namespaces/slipway/serviceaccounts/slipway.
	Name string
	// Issuer is the OpenID Connect provider that identified the subject.
	Issuer string
	// SignedAt is the time of the first valid timestamp.
	SignedAt time.Time
}

// Verify returns who signed a message and when.
func (r *Root) Verify(c attest.Certified, message []byte) (Identity, error) {
	leaf, err := x509.ParseCertificate(c.Certificate)
	if err != nil {
		return Identity{}, fmt.Errorf("the certificate of the signature is malformed: %w", err)
	}
	key, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return Identity{}, errors.New("the certificate of the signature has no ECDSA key with the curve P-256")
	}
	sum := sha256.Sum256(message)
	if !ecdsa.VerifyASN1(key, sum[:], c.Signature) {
		return Identity{}, attest.ErrOtherKey
	}
	if len(c.Timestamps) == 0 || len(c.Timestamps) > limits.SignatureTimestamps {
		return Identity{}, fmt.Errorf("the signature has %d timestamps; 1 to %d are allowed", len(c.Timestamps), limits.SignatureTimestamps)
	}
	var problems []error
	for _, t := range c.Timestamps {
		at, err := r.signedAt(t, c.Signature)
		if err == nil {
			err = r.certified(leaf, at)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		return identityOf(leaf, at)
	}
	return Identity{}, errors.Join(problems...)
}

// signedAt returns the time in a timestamp of a trusted authority.
func (r *Root) signedAt(timestamp, signature []byte) (time.Time, error) {
	if len(timestamp) > limits.Timestamp {
		return time.Time{}, fmt.Errorf("the timestamp of the signature has %d bytes, and the limit is %d", len(timestamp), limits.Timestamp)
	}
	var problem error
	for _, a := range r.timestamps {
		t, err := verification.VerifyTimestampResponse(timestamp, bytes.NewReader(signature), verification.VerifyOpts{
			Roots: []*x509.Certificate{a.root}, Intermediates: a.intermediates, TSACertificate: a.leaf,
		})
		if err == nil && !a.isTrusted(t.Time) {
			err = errors.New("its authority is not trusted for this time")
		}
		if err == nil {
			return t.Time, nil
		}
		problem = err
	}
	return time.Time{}, fmt.Errorf("the timestamp of the signature is not valid: %w", problem)
}

// certified returns an error if no trusted authority issued a certificate that was valid at a time.
func (r *Root) certified(leaf *x509.Certificate, at time.Time) error {
	problem := errors.New("no authority is trusted for this time")
	for _, a := range r.certificates {
		if !a.isTrusted(at) {
			continue
		}
		o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}
		o.Roots.AddCert(a.root)
		for _, c := range a.intermediates {
			o.Intermediates.AddCert(c)
		}
		if _, err := leaf.Verify(o); err != nil {
			problem = err
			continue
		}
		return nil
	}
	return fmt.Errorf("the certificate of the signature was not valid at %s: %w", at.UTC().Format(time.RFC3339), problem)
}

// identityOf returns to whom a certificate was issued.
func identityOf(leaf *x509.Certificate, at time.Time) (Identity, error) {
	out := Identity{SignedAt: at}
	names := leaf.EmailAddresses
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	if len(names) != 1 {
		return out, fmt.Errorf("the certificate of the signature has %d names that are URIs or e-mail addresses, instead of one", len(names))
	}
	out.Name = names[0]
	// The extension of Fulcio with the OpenID Connect provider, as a UTF8String.
	oidIssuer := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
	for _, e := range leaf.Extensions {
		if !e.Id.Equal(oidIssuer) {
			continue
		}
		if rest, err := asn1.Unmarshal(e.Value, &out.Issuer); err != nil || len(rest) > 0 {
			return out, errors.New("the certificate of the signature has a malformed issuer")
		}
	}
	if out.Issuer == "" {
		return out, errors.New("the certificate of the signature does not name the OpenID Connect provider")
	}
	return out, nil
}
