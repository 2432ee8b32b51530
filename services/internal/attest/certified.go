package attest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// A Certifier signs with short-lived keys. An authority certifies to whom each key belongs.
type Certifier interface {
	// Identity identifies to whom the certificates are issued, and the authorities. It is the same
	// in every process with the same settings.
	Identity(ctx context.Context) (string, error)
	// Certify returns a signature of a message, which is different each time.
	Certify(ctx context.Context, message []byte) (Certified, error)
}

// A Certified is a signature, with the certificate of its key.
type Certified struct {
	// Signature is in ASN.1, and of the SHA-256 of the message.
	Signature []byte `json:"signature"`
	// Certificate is in DER.
	Certificate []byte `json:"certificate"`
	// Timestamps prove when the signature existed. Each is a response in DER (RFC 3161) about the
	// signature.
	Timestamps [][]byte `json:"timestamps"`
}

// ErrNotCertified is returned for a bundle that has no certificate, but is signed with a known key.
var ErrNotCertified = errors.New("the signature was made with a key that has no certificate")

// NewCertifiedSigner returns a signer with certified keys. Storing must be called before anything is
// signed.
func NewCertifiedSigner(c Certifier) *Signer { return &Signer{certifier: c, isRandom: true} }

// IsCertified reports whether certified keys sign.
func (s *Signer) IsCertified() bool { return s.certifier != nil }

// certify returns the stored signature of a message.
func (s *Signer) certify(ctx context.Context, message []byte) (out Certified, err error) {
	if s.stored == nil {
		return out, errors.New("signatures with certificates differ each time, and cannot be stored")
	}
	who, err := s.certifier.Identity(ctx)
	if err != nil {
		return out, err
	}
	raw, err := s.stored.Signature(ctx, who, hex.EncodeToString(hash(message)), func() ([]byte, error) {
		c, err := s.certifier.Certify(ctx, message)
		if err != nil {
			return nil, err
		}
		return json.Marshal(c)
	})
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("a stored signature is malformed: %w", err)
	}
	return out, nil
}

// VerifyCertified returns the statement in an artifact about a manifest, if the argument check accepts
// its signature of a message. It returns ErrNotCertified if the signature has no certificate. The caller
// must have verified the digest of the artifact's manifest.
func VerifyCertified(a Artifact, subject digest.Digest, check func(c Certified, message []byte) error) (*Statement, error) {
	return verifyArtifact(a, subject, func() (*Statement, error) {
		b, err := openBundle(a.Bundle, subject)
		if err != nil {
			return nil, err
		}
		m, c := b.VerificationMaterial, Certified{}
		switch {
		case m.Certificate == nil:
			return nil, ErrNotCertified
		case len(b.Envelope.Signatures) != 1:
			return nil, fmt.Errorf("the envelope has %d signatures, but one certificate", len(b.Envelope.Signatures))
		case m.Timestamps == nil || len(m.Timestamps.RFC3161) == 0:
			return nil, errors.New("the signature has no timestamp, so that it is unknown whether its certificate was valid")
		case len(m.Timestamps.RFC3161) > limits.SignatureTimestamps:
			return nil, fmt.Errorf("the signature has %d timestamps, and the limit is %d", len(m.Timestamps.RFC3161), limits.SignatureTimestamps)
		}
		c.Signature, c.Certificate = b.Envelope.Signatures[0].Sig, m.Certificate.RawBytes
		for _, t := range m.Timestamps.RFC3161 {
			c.Timestamps = append(c.Timestamps, t.Signed)
		}
		if err := check(c, pae(b.Envelope.PayloadType, b.Envelope.Payload)); err != nil {
			return nil, err
		}
		return b.Envelope.statement(subject)
	})
}
