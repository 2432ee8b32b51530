package run

import (
	"errors"
	"os"
	"strconv"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/cmd/slipway/internal/verify"
	"slipway.dev/services/mount/cache"
)

// withoutVerification is the advice for images whose signatures cannot be verified.
const withoutVerification = "unset SLIPWAY_VERIFY and SLIPWAY_KEY to run it without verification"

// useVariables applies SLIPWAY_VERIFY and SLIPWAY_KEY, which have the effect of --verify and --key, unless other keys or identities are given.
func (f *flags) useVariables(get func(string) string) error {
	if v := get("SLIPWAY_VERIFY"); v != "" && !f.verify {
		var err error
		if f.verify, err = strconv.ParseBool(v); err != nil {
			return usage.Errorf("SLIPWAY_VERIFY must be 1 or 0, not %.20q", v)
		}
	}
	if file := get("SLIPWAY_KEY"); file != "" && !f.trust.IsSet() {
		f.trust = verify.KeyFile(file)
	}
	return nil
}

// verifiedBy identifies what must have signed the environment; "" if it need not be signed.
func (f *flags) verifiedBy(s *session.Settings) (string, error) {
	if err := f.useVariables(os.Getenv); err != nil {
		return "", err
	}
	if !f.verify && !f.trust.IsSet() {
		return "", nil
	}
	return f.trust.ID(s)
}

// check verifies the signatures of an environment and of the image, which sets its variables.
func (f *flags) check(cmd *cobra.Command, s *session.Settings, r *registry, found cache.Name) error {
	c, err := f.trust.Checker(cmd, s)
	if err != nil {
		return err
	}
	all := []string{found.Environment, found.ImageDigest}
	if found.Environment == "" {
		all = all[1:]
	}
	for _, d := range all {
		if err := c.Check(cmd.Context(), r.client, r.at, digest.Digest(d)); err != nil {
			return err
		}
	}
	return nil
}

// signedKey is the key under which the cache records that an image and its environment were verified.
func signedKey(by, image string) string { return "signed " + by + " " + image }

// checkSigned returns an error if images must be signed, and the cache does not record that one and its environment were verified. A file of `pull` cannot
// state it: other users could have written it.
func (f *flags) checkSigned(s *session.Settings, c *cache.Cache, n cache.Name) error {
	by, err := f.verifiedBy(s)
	if err != nil || by == "" {
		return err
	}
	known, ok := c.Resolved(signedKey(by, n.ImageDigest))
	if !ok || known.Verified != by || known.ImageDigest != n.ImageDigest || n.Environment != "" && n.Environment != known.Environment {
		return errors.New("the image was not verified when it was pulled; pull it again, or " + withoutVerification)
	}
	return nil
}

// refuseUnsigned returns an error if images must be signed. A Singularity image that is a file has no signature that is verified.
func (f *flags) refuseUnsigned(s *session.Settings) error {
	by, err := f.verifiedBy(s)
	if err == nil && by != "" {
		err = errors.New("the signature of a Singularity image that is a file is not verified; " + withoutVerification)
	}
	return err
}
