package attest

import (
	"crypto/ecdsa"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
)

// The format of signatures of cosign before version 3: the payload is a layer of the image with the
// tag sha256-….sig, and the signature is an annotation of the layer.
const (
	// SimpleSigningType is the media type of a payload.
	SimpleSigningType = "application/vnd.dev.cosign.simplesigning.v1+json"
	// SimpleSigningAnnotation is the annotation with the signature in base64.
	SimpleSigningAnnotation = "dev.cosignproject.cosign/signature"

	simpleSigningKind = "cosign container image signature"
)

// SimpleSigningTag returns the tag with the signatures of a manifest.
func SimpleSigningTag(d digest.Digest) string {
	return d.Algorithm().String() + "-" + d.Encoded() + ".sig"
}

// VerifySimpleSigning verifies a signature of a payload about a manifest, by one of the keys. It returns
// ErrOtherKey if none of the keys has made it.
func VerifySimpleSigning(payload, signature []byte, subject digest.Digest, keys ...*ecdsa.PublicKey) error {
	isSigned := false
	message := hash(payload)
	for _, k := range keys {
		isSigned = isSigned || ecdsa.VerifyASN1(k, message, signature)
	}
	if !isSigned {
		return ErrOtherKey
	}
	var p struct {
		Critical struct {
			Image struct {
				Digest digest.Digest `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if err := decode(payload, &p); err != nil {
		return fmt.Errorf("the signed payload is malformed: %w", err)
	}
	switch {
	case p.Critical.Type != simpleSigningKind:
		return fmt.Errorf("the type of the signed payload is %.100q instead of %q", p.Critical.Type, simpleSigningKind)
	case p.Critical.Image.Digest != subject:
		return errors.New("the signed payload is about another image")
	}
	return nil
}
