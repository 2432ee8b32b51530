// Package attest signs statements about OCI images and verifies them. It does no I/O.
//
// A statement is an in-toto statement about one manifest. It is signed in a DSSE envelope, and the
// envelope is stored in a Sigstore bundle without a transparency log entry. The bundle is the only
// layer of an OCI artifact whose subject is the manifest. This is the format of cosign v3, so that
// `cosign verify --key` and `cosign verify-attestation --key` accept it.
//
// The same statement and key file produce the same bytes in every process. Therefore nothing is
// stored: each replica signs when a client lists the referrers of an image. This requires a
// deterministic signature algorithm, which crypto/ecdsa has (RFC 6979). A key without it, such as
// those of SSH agents, PKCS#11 tokens and key management services, needs Signatures, which stores
// each signature before it is returned. So does a Certifier, whose keys are short-lived: the bundle
// then has the certificate of the key, and a timestamp that proves when it was used.
//
// The types of github.com/in-toto/attestation and github.com/sigstore/protobuf-specs are not used,
// because their encoder, protojson, produces other bytes in each build of a program.
package attest

import (
	"context"
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
	// RebuiltPredicate is the type of a statement that two workers made the manifest with the same
	// bytes. It is the address of the page that describes it.
	RebuiltPredicate = "https://slipway.dev/docs/guide/verify#rebuilt"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	payloadType   = "application/vnd.in-toto+json"
	// mirrorType is the payload type of a statement about a mirrored image. Any user can get such a
	// statement for any image, and `cosign verify` accepts an image with any in-toto statement of the
	// key. Therefore it needs its own payload type, which is part of what is signed.
	mirrorType = "application/vnd.slipway.mirror+json"
)

// A Statement is an in-toto statement.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Resource      `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
	// IsMirror is true for the provenance of a copy (SignMirror), which says nothing about how the image
	// was made.
	IsMirror bool `json:"-"`
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
func (s *Signer) Sign(ctx context.Context, subject ocispec.Descriptor, predicateType string, predicate any) (Artifact, error) {
	return s.artifact(ctx, payloadType, subject, predicateType, predicate)
}

// SignMirror returns the artifact with the provenance of a copy. Its build type must be
// BuildTypeMirrored. Programs that verify signatures, such as cosign, do not accept it as one.
func (s *Signer) SignMirror(ctx context.Context, subject ocispec.Descriptor, p Provenance) (Artifact, error) {
	return s.artifact(ctx, mirrorType, subject, ProvenancePredicate, p)
}

func (s *Signer) artifact(ctx context.Context, kind string, subject ocispec.Descriptor, predicateType string, predicate any) (Artifact, error) {
	signed, err := s.bundle(ctx, kind, []Resource{{Digest: map[string]string{subject.Digest.Algorithm().String(): subject.Digest.Encoded()}}}, predicateType, predicate)
	if err != nil {
		return Artifact{}, err
	}
	out := Artifact{Bundle: signed}
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

// SignBundle returns a Sigstore bundle with a statement about manifests or files.
func (s *Signer) SignBundle(ctx context.Context, subjects []Resource, predicateType string, predicate any) ([]byte, error) {
	return s.bundle(ctx, payloadType, subjects, predicateType, predicate)
}

// bundle returns a Sigstore bundle with a statement of a payload type.
func (s *Signer) bundle(ctx context.Context, kind string, subjects []Resource, predicateType string, predicate any) ([]byte, error) {
	raw, err := json.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(Statement{Type: statementType, Subject: subjects, PredicateType: predicateType, Predicate: raw})
	if err != nil {
		return nil, err
	}
	b := bundle{MediaType: BundleType}
	message := pae(kind, payload)
	var signature []byte
	if s.certifier != nil {
		c, err := s.certify(ctx, message)
		if err != nil {
			return nil, err
		}
		signature = c.Signature
		b.VerificationMaterial.Certificate, b.VerificationMaterial.Timestamps = &certificate{RawBytes: c.Certificate}, &timestamps{}
		for _, t := range c.Timestamps {
			b.VerificationMaterial.Timestamps.RFC3161 = append(b.VerificationMaterial.Timestamps.RFC3161, timestamp{Signed: t})
		}
	} else {
		if signature, err = s.sign(ctx, message); err != nil {
			return nil, err
		}
		b.VerificationMaterial.PublicKey = &keyHint{Hint: s.hint}
	}
	b.Envelope = &envelope{Payload: payload, PayloadType: kind, Signatures: []signatureOf{{Sig: signature}}}
	return json.Marshal(b)
}

// SignImage returns the artifact that `cosign sign` would make for a manifest.
func (s *Signer) SignImage(ctx context.Context, subject ocispec.Descriptor) (Artifact, error) {
	return s.Sign(ctx, subject, SignaturePredicate, struct{}{})
}

// A bundle is a Sigstore bundle of version 0.3 (sigstore/protobuf-specs, Bundle).
type bundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey   *keyHint     `json:"publicKey,omitempty"`
		Certificate *certificate `json:"certificate,omitempty"`
		Timestamps  *timestamps  `json:"timestampVerificationData,omitempty"`
	} `json:"verificationMaterial"`
	Envelope *envelope `json:"dsseEnvelope,omitempty"`
}

// A keyHint identifies a public key.
type keyHint struct {
	Hint string `json:"hint,omitempty"`
}

// A certificate is an X.509 certificate in DER.
type certificate struct {
	RawBytes []byte `json:"rawBytes"`
}

// The timestamps of a signature.
type timestamps struct {
	RFC3161 []timestamp `json:"rfc3161Timestamps"`
}

// A timestamp is a response of a timestamp authority in DER (RFC 3161).
type timestamp struct {
	Signed []byte `json:"signedTimestamp"`
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
