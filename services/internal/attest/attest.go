// Package attest signs statements about OCI images and verifies them. It does no I/O.
//
// A statement is an in-toto statement about one manifest. It is signed in a DSSE envelope, and the
// envelope is stored in a Sigstore bundle without a transparency log entry. The bundle is the only
// layer of an OCI artifact whose subject is the manifest. This is the format of cosign v3, so that
// `cosign verify --key` and `cosign verify-attestation --key` accept it.
//
// The same statement and key produce the same bytes in every process. Therefore nothing is
// stored: each replica signs when a client lists the referrers of an image. This requires a
// deterministic signature algorithm, which crypto/ecdsa has (RFC 6979). A signer without it, such
// as most key management services and PKCS#11 tokens, would require that signatures are stored
// before they are returned. NewSigner rejects such a signer.
//
// The types of github.com/in-toto/attestation and github.com/sigstore/protobuf-specs are not used,
// because their encoder, protojson, produces other bytes in each build of a program.
package attest

import (
	"crypto"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Media types and annotations of an artifact.
const (
	// BundleType is the artifact type, and the media type of the only layer.
	BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// AnnotationPredicate is the annotation with the predicate type.
	AnnotationPredicate = "dev.sigstore.bundle.predicateType"

	annotationContent = "dev.sigstore.bundle.content"
	contentDSSE       = "dsse-envelope"
)

// Predicate types.
const (
	// SignaturePredicate is the type of a statement that only signs the manifest, as `cosign sign`
	// makes it. Its predicate is empty.
	SignaturePredicate = "https://sigstore.dev/cosign/sign/v1"
	// ProvenancePredicate is the type of SLSA provenance.
	ProvenancePredicate = "https://slsa.dev/provenance/v1"
	// SPDXPredicate is the type of an SBOM in SPDX.
	SPDXPredicate = "https://spdx.dev/Document"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	payloadType   = "application/vnd.in-toto+json"
)

// A Statement is an in-toto statement.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Resource      `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// A Resource is a resource descriptor of in-toto. The digests are hexadecimal, by algorithm.
type Resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	MediaType   string            `json:"mediaType,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// An Artifact is a signed statement in the form in which a registry stores it.
type Artifact struct {
	// Manifest is the artifact's manifest, and Bundle its only layer. Its config is
	// ocispec.DescriptorEmptyJSON.
	Manifest, Bundle []byte
}

// Sign returns the artifact with a statement about a manifest.
func (s *Signer) Sign(subject ocispec.Descriptor, predicateType string, predicate any) (Artifact, error) {
	raw, err := json.Marshal(predicate)
	if err != nil {
		return Artifact{}, err
	}
	payload, err := json.Marshal(Statement{
		Type:          statementType,
		Subject:       []Resource{{Digest: map[string]string{subject.Digest.Algorithm().String(): subject.Digest.Encoded()}}},
		PredicateType: predicateType,
		Predicate:     raw,
	})
	if err != nil {
		return Artifact{}, err
	}
	signature, err := s.sign(pae(payloadType, payload))
	if err != nil {
		return Artifact{}, err
	}
	b := bundle{MediaType: BundleType}
	b.VerificationMaterial.PublicKey = &keyHint{Hint: s.hint}
	b.Envelope = &envelope{Payload: payload, PayloadType: payloadType, Signatures: []signatureOf{{Sig: signature}}}
	out := Artifact{}
	if out.Bundle, err = json.Marshal(b); err != nil {
		return Artifact{}, err
	}
	out.Manifest, err = json.Marshal(ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: BundleType,
		Config:       ocispec.DescriptorEmptyJSON,
		Layers:       []ocispec.Descriptor{{MediaType: BundleType, Digest: digest.FromBytes(out.Bundle), Size: int64(len(out.Bundle))}},
		Subject:      &ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
		Annotations:  map[string]string{annotationContent: contentDSSE, AnnotationPredicate: predicateType},
	})
	return out, err
}

// SignImage returns the artifact that `cosign sign` would make for a manifest.
func (s *Signer) SignImage(subject ocispec.Descriptor) (Artifact, error) {
	return s.Sign(subject, SignaturePredicate, struct{}{})
}

// A bundle is a Sigstore bundle of version 0.3 (sigstore/protobuf-specs, Bundle).
type bundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey *keyHint `json:"publicKey,omitempty"`
	} `json:"verificationMaterial"`
	Envelope *envelope `json:"dsseEnvelope,omitempty"`
}

// A keyHint identifies a public key.
type keyHint struct {
	Hint string `json:"hint,omitempty"`
}

// An envelope is a DSSE envelope (secure-systems-lab/dsse).
type envelope struct {
	Payload     []byte        `json:"payload"`
	PayloadType string        `json:"payloadType"`
	Signatures  []signatureOf `json:"signatures"`
}

type signatureOf struct {
	Sig []byte `json:"sig"`
}

// pae returns what DSSE signs: its pre-authentication encoding.
func pae(kind string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
}

// hash returns the digest that is signed.
func hash(message []byte) []byte {
	h := crypto.SHA256.New()
	h.Write(message)
	return h.Sum(nil)
}
