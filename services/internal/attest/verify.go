package attest

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
)

// ErrOtherKey is returned for a bundle that none of the keys has signed, or that was changed
// afterwards.
var ErrOtherKey = errors.New("the signature was made with another key, or the statement was changed after it was signed")

// BundleOf returns the descriptor of the bundle of an artifact about a manifest. The caller must
// have verified the digest of the artifact's manifest.
func BundleOf(manifest []byte, subject digest.Digest) (ocispec.Descriptor, error) {
	var m ocispec.Manifest
	if len(manifest) > limits.Document {
		return ocispec.Descriptor{}, fmt.Errorf("its manifest is larger than %d bytes", limits.Document)
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("its manifest is malformed: %w", err)
	}
	switch {
	case m.ArtifactType != BundleType:
		return ocispec.Descriptor{}, fmt.Errorf("its artifact type is %.100q instead of %q", m.ArtifactType, BundleType)
	case m.Subject == nil || m.Subject.Digest != subject:
		return ocispec.Descriptor{}, errors.New("its manifest refers to another image")
	case len(m.Layers) != 1 || m.Layers[0].MediaType != BundleType:
		return ocispec.Descriptor{}, fmt.Errorf("its manifest does not have exactly one layer of the type %q", BundleType)
	case m.Layers[0].Size > limits.AttestationBundle:
		return ocispec.Descriptor{}, fmt.Errorf("its bundle has %d bytes, and the limit is %d", m.Layers[0].Size, limits.AttestationBundle)
	}
	return m.Layers[0], m.Layers[0].Digest.Validate()
}

// VerifyArtifact returns the statement in an artifact about a manifest, if one of the keys has signed
// it. The caller must have verified the digest of the artifact's manifest.
func VerifyArtifact(a Artifact, subject digest.Digest, keys ...*ecdsa.PublicKey) (*Statement, error) {
	return verifyArtifact(a, subject, func() (*Statement, error) { return Verify(a.Bundle, subject, keys...) })
}

// verifyArtifact returns the statement in an artifact. The argument verify verifies its bundle.
func verifyArtifact(a Artifact, subject digest.Digest, verify func() (*Statement, error)) (*Statement, error) {
	layer, err := BundleOf(a.Manifest, subject)
	if err != nil {
		return nil, err
	}
	if layer.Digest != digest.FromBytes(a.Bundle) {
		return nil, errors.New("the bundle is not the one that its manifest refers to")
	}
	s, err := verify()
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(a.Manifest, &m); err != nil {
		return nil, err
	}
	if kind, ok := m.Annotations[AnnotationPredicate]; ok && kind != s.PredicateType {
		return nil, fmt.Errorf("the manifest states the predicate type %.100q, and the signed statement %.100q", kind, s.PredicateType)
	}
	return s, nil
}

// Verify returns the statement in a bundle, if one of the keys has signed it and it is about the
// manifest with the digest.
func Verify(raw []byte, subject digest.Digest, keys ...*ecdsa.PublicKey) (*Statement, error) {
	b, err := openBundle(raw, subject)
	if err != nil {
		return nil, err
	}
	if !b.Envelope.signedBy(keys) {
		return nil, ErrOtherKey
	}
	return b.Envelope.statement(subject)
}

// openBundle decodes a bundle about a manifest, whose signature is not verified yet.
func openBundle(raw []byte, subject digest.Digest) (*bundle, error) {
	if len(raw) > limits.AttestationBundle {
		return nil, fmt.Errorf("the bundle has %d bytes, and the limit is %d", len(raw), limits.AttestationBundle)
	}
	if err := subject.Validate(); err != nil {
		return nil, fmt.Errorf("%.100q is not a digest: %w", subject, err)
	}
	var b bundle
	if err := decode(raw, &b); err != nil {
		return nil, fmt.Errorf("the bundle is malformed: %w", err)
	}
	switch {
	case b.MediaType != BundleType:
		return nil, fmt.Errorf("the bundle's media type is %.100q instead of %q", b.MediaType, BundleType)
	case b.Envelope == nil:
		return nil, errors.New("the bundle has no DSSE envelope")
	case b.Envelope.PayloadType != payloadType && b.Envelope.PayloadType != mirrorType:
		return nil, fmt.Errorf("the payload type is %.100q instead of %q", b.Envelope.PayloadType, payloadType)
	case len(b.Envelope.Signatures) == 0 || len(b.Envelope.Signatures) > limits.SigningKeys:
		return nil, fmt.Errorf("the envelope has %d signatures; 1 to %d are allowed", len(b.Envelope.Signatures), limits.SigningKeys)
	}
	return &b, nil
}

// signedBy reports whether one of the keys has made one of the signatures.
func (e *envelope) signedBy(keys []*ecdsa.PublicKey) bool {
	message := hash(pae(e.PayloadType, e.Payload))
	for _, k := range keys {
		for _, s := range e.Signatures {
			if ecdsa.VerifyASN1(k, message, s.Sig) {
				return true
			}
		}
	}
	return false
}

// statement reads the statement, which must be about a manifest.
func (e *envelope) statement(subject digest.Digest) (*Statement, error) {
	s := &Statement{IsMirror: e.PayloadType == mirrorType}
	if err := decode(e.Payload, s); err != nil {
		return nil, fmt.Errorf("the signed statement is malformed: %w", err)
	}
	if s.IsMirror {
		if p, err := s.Provenance(); err != nil {
			return nil, err
		} else if p.BuildDefinition.BuildType != BuildTypeMirrored {
			return nil, fmt.Errorf("a statement about a copy has the build type %.100q instead of %q", p.BuildDefinition.BuildType, BuildTypeMirrored)
		}
	}
	if s.Type != statementType {
		return nil, fmt.Errorf("the type of the statement is %.100q instead of %q", s.Type, statementType)
	}
	for _, r := range s.Subject {
		if r.Digest[subject.Algorithm().String()] == subject.Encoded() {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the signed statement is not about %s but about another image", subject)
}

// decode decodes JSON. It rejects objects with two keys that differ at most in case: programs disagree
// on which of their values is meant.
func decode(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	var open []map[string]bool // the keys of the open objects; nil for an array
	isKey := false
	tokens := json.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			isKey = len(open) > 0 && open[len(open)-1] != nil
			continue
		case string:
			if isKey {
				key := strings.ToLower(t)
				if keys := open[len(open)-1]; keys[key] {
					return fmt.Errorf("the key %.100q occurs twice in an object", t)
				}
				open[len(open)-1][key] = true
				isKey = false
				continue
			}
		}
		isKey = len(open) > 0 && open[len(open)-1] != nil
	}
}
