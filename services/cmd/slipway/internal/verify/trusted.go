package verify

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/attest/trust"
)

// trusted is what must have signed an image.
type trusted interface {
	// verify returns the statement in an artifact, and adds to the result who signed it.
	verify(a attest.Artifact, subject digest.Digest, r *result) (*attest.Statement, error)
}

// keys are public keys, of which one must have signed an image.
type keys []*ecdsa.PublicKey

func newKeys(raw []byte) (trusted, error) {
	list, err := attest.ParsePublicKeys(raw)
	return keys(list), err
}

func (k keys) verify(a attest.Artifact, subject digest.Digest, r *result) (*attest.Statement, error) {
	for _, key := range k {
		s, err := attest.VerifyArtifact(a, subject, key)
		if errors.Is(err, attest.ErrOtherKey) {
			continue
		}
		if err == nil {
			r.KeyHint = attest.KeyHint(key)
		}
		return s, err
	}
	_, err := attest.VerifyCertified(a, subject, func(attest.Certified, []byte) error { return errCertified })
	if errors.Is(err, errCertified) {
		return nil, errCertified
	}
	return nil, attest.ErrOtherKey
}

var errCertified = errors.New("it was signed with a certificate instead of a key: use --certificate-identity and --certificate-oidc-issuer")

// certificates are authorities, of which one must have issued a certificate to an identity.
type certificates struct {
	root *trust.Root
	want trust.Identity
}

// signedBy is to whom the certificate of a signature was issued.
type signedBy struct {
	Identity string `json:"identity"`
	Issuer   string `json:"issuer"`
	SignedAt string `json:"signedAt"`
}

func newCertificates(raw []byte, want trust.Identity) (trusted, error) {
	root, err := trust.Parse(raw)
	return certificates{root, want}, err
}

func (c certificates) verify(a attest.Artifact, subject digest.Digest, r *result) (*attest.Statement, error) {
	return attest.VerifyCertified(a, subject, func(signature attest.Certified, message []byte) error {
		who, err := c.root.Verify(signature, message)
		switch {
		case err != nil:
			return err
		case who.Name != c.want.Name:
			return fmt.Errorf("it was signed by %q instead of %q", who.Name, c.want.Name)
		case who.Issuer != c.want.Issuer:
			return fmt.Errorf("%q was identified by %q instead of %q", who.Name, who.Issuer, c.want.Issuer)
		}
		r.Certificate = &signedBy{who.Name, who.Issuer, who.SignedAt.UTC().Format(time.RFC3339)}
		return nil
	})
}
