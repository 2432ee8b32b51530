package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/ref"
	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/internal/attest/trust"
	"slipway.dev/services/internal/limits"
)

// A Trust is what must have signed a manifest: the server's key if nothing is set.
type Trust struct {
	key string
	// certificate is the required identity of certificates; zero if keys are verified.
	certificate trust.Identity
	root        string
}

// Add adds the flags --key, --certificate-identity, --certificate-oidc-issuer and --trusted-root.
func (t *Trust) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.key, "key", "", "A `file` with the public keys to trust, as PEM, instead of the server's.")
	cmd.Flags().StringVar(&t.certificate.Name, "certificate-identity", "", "The `identity` to which the signature's certificate must be issued, e.g. https://kubernetes.io/namespaces/slipway/serviceaccounts/slipway.")
	cmd.Flags().StringVar(&t.certificate.Issuer, "certificate-oidc-issuer", "", "The `URL` of the OpenID Connect provider that must have identified it.")
	cmd.Flags().StringVar(&t.root, "trusted-root", "", "A `file` with the authorities to trust, a trusted root of Sigstore, instead of the server's.")
}

// KeyFile returns the trust in the public keys of a file.
func KeyFile(path string) Trust { return Trust{key: path} }

// IsSet reports whether one of the flags is set.
func (t *Trust) IsSet() bool { return *t != Trust{} }

// ID identifies what is trusted, so that a manifest that was verified need not be verified again: the
// contents of files, or the address of the server.
func (t *Trust) ID(s *session.Settings) (string, error) {
	parts := []string{s.ServerURL(), t.certificate.Name, t.certificate.Issuer}
	for _, file := range []string{t.key, t.root} {
		if file == "" {
			parts = append(parts, "")
			continue
		}
		raw, err := read(file, max(limits.SigningKeyFile, limits.TrustedRoot))
		if err != nil {
			return "", err
		}
		parts[0] = "" // the server does not matter
		sum := sha256.Sum256(raw)
		parts = append(parts, hex.EncodeToString(sum[:]))
	}
	return digest.FromString(strings.Join(parts, "\n")).Encoded(), nil
}

// A Checker verifies the signatures of manifests.
type Checker struct{ by trusted }

// Checker returns what verifies manifests. It may fetch the server's key.
func (t *Trust) Checker(cmd *cobra.Command, s *session.Settings) (*Checker, error) {
	by, _, _, err := t.trusted(cmd, s)
	return &Checker{by}, err
}

// Check verifies that a manifest has a signature and provenance.
func (c *Checker) Check(ctx context.Context, client *regclient.RegClient, repository ref.Ref, manifest digest.Digest) error {
	v := &verifier{client: client, at: repository, by: c.by}
	if err := v.statements(ctx, manifest, &result{}); err != nil {
		return fmt.Errorf("%s is not verified: %w", manifest, err)
	}
	return nil
}
