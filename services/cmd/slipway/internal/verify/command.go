// Package verify implements `slipway verify`, which verifies the signature and the provenance of an
// image.
package verify

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/cmd/slipway/internal/bundle"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/limits"
)

type flags struct {
	Trust
	layers   bool
	mirrored bool
	plain    []string
}

// Command returns `slipway verify`.
func Command(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "verify REF",
		Short: "Verify the signature and the provenance of an image",
		Long: `Verify the signature and the provenance of an image.

The image may be in any registry that has its signatures: a server of Slipway
returns them for the images that it has made. Signatures must be of the server's
key, which is fetched from it, or of a key in the file --key. Signatures of a server
that uses certificates instead of a key must have a certificate for the identity
--certificate-identity, of the provider --certificate-oidc-issuer. The digests of all
manifests and configs of the image are verified; with --layers, also those of its
layers, which are downloaded for it. The exit code is 1 if anything is missing or
was changed.

An image that the server has only mirrored has no signature, since the server did not
make its content. With --mirrored it is accepted if the server's signed statement says
from where it was copied.

A key that is fetched from the server protects against registries and mirrors that
change an image, but not against the server itself: store the key that you trust,
and use --key, or the authorities in --trusted-root. ` + "`cosign verify`" + ` verifies the
same signatures.`,
		Example: "  slipway verify slipway.example.org/wt/…/samtools:1.20\n  slipway verify registry.example.org/team/samtools:1.20 --key cosign.pub --layers",
		Args:    usage.Exactly(1),
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&f.layers, "layers", false, "Download all layers, and verify their digests.")
	cmd.Flags().BoolVar(&f.mirrored, "mirrored", false, "Accept an image without a signature that the server has mirrored: verify where it is from, not who made it.")
	cmd.Flags().StringArrayVar(&f.plain, "plain-http", nil, "A `registry` to read with plain HTTP, e.g. registry.example.org:5000; may be repeated.")
	usage.CompleteFlag(cmd, "plain-http")
	format := output.Flag(cmd, result{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := f.run(cmd, s, args[0])
		if err != nil {
			return err
		}
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return format.Print(cmd.OutOrStdout(), raw, r.table())
	}
	return cmd
}

// run verifies an image.
func (f *flags) run(cmd *cobra.Command, s *session.Settings, image string) (*result, error) {
	at, err := ref.New(strings.TrimPrefix(strings.TrimPrefix(image, "docker://"), "oras://"))
	if err != nil || at.Scheme != "reg" || len(image) > limits.BundleName {
		return nil, usage.Errorf("%.100q is not the name of an image", image)
	}
	by, from, server, err := f.trusted(cmd, s)
	if err != nil {
		return nil, err
	}
	v := &verifier{client: bundle.NewClient(s.Version, server, at.Registry, f.plain), at: at, by: by, mirrored: f.mirrored}
	r, err := v.image(cmd.Context(), f.layers)
	if err != nil {
		return nil, fmt.Errorf("the image %s is not verified: %w", image, err)
	}
	r.Image, r.Key = image, from
	return r, nil
}

// trusted returns what must have signed the image, where the keys or authorities are from, and the
// server if there is one.
func (t *Trust) trusted(cmd *cobra.Command, s *session.Settings) (by trusted, from string, server *url.URL, err error) {
	isCertified := t.certificate.Name != "" || t.certificate.Issuer != "" || t.root != ""
	switch {
	case t.key != "" && isCertified:
		return nil, "", nil, usage.Errorf("--key is for signatures of a key, and --certificate-identity, --certificate-oidc-issuer and --trusted-root are for those with a certificate")
	case isCertified && (t.certificate.Name == "" || t.certificate.Issuer == ""):
		return nil, "", nil, usage.Errorf("signatures with a certificate require --certificate-identity and --certificate-oidc-issuer")
	}
	c, noServer := s.Client()
	if noServer == nil {
		server = c.Base
	}
	path, what, limit := "/.well-known/slipway/cosign.pub", "public key", limits.SigningKeyFile
	if isCertified {
		path, what, limit = "/.well-known/slipway/trusted-root.json", "trusted root", limits.TrustedRoot
	}
	var raw []byte
	if given := t.key + t.root; given != "" {
		from = given
		raw, err = read(given, limit)
	} else if noServer != nil {
		return nil, "", nil, noServer
	} else {
		from = c.Base.Redacted()
		if raw, err = c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: path}, nil); err != nil {
			err = fmt.Errorf("fetching the server's %s: %w", what, err)
		}
	}
	if err != nil {
		return nil, "", nil, err
	}
	if isCertified {
		by, err = newCertificates(raw, t.certificate)
	} else {
		by, err = newKeys(raw)
	}
	if err != nil {
		err = fmt.Errorf("the %s of %s: %w", what, from, err)
	}
	return by, from, server, err
}

// read reads a small file.
func read(path string, limit int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err == nil && len(raw) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return raw, err
}

// A result is what was verified.
type result struct {
	Image  string `json:"image"`
	Digest string `json:"digest"`
	// Key is where the keys or authorities are from, and KeyHint identifies the key.
	Key     string `json:"key"`
	KeyHint string `json:"keyHint,omitempty"`
	// Certificate is to whom the certificate of the signature was issued; nil if a key signed.
	Certificate *signedBy `json:"certificate,omitempty"`
	// IsSigned reports whether there is a signature of the image, and not only statements about it.
	IsSigned  bool     `json:"signed"`
	Statement []string `json:"statements"`
	// Builder is the server that made the image; "" with BuildType if it has only mirrored it.
	Builder   string `json:"builder"`
	BuildType string `json:"buildType"`
	// Mirrored are the mirrors that have copied the image to its repository or to an earlier one.
	Mirrored []mirror `json:"mirrored,omitempty"`
	Build    string   `json:"buildId,omitempty"`
	Inputs   int      `json:"inputs"`
	// Rebuilt states that two workers made the same bytes; nil if no statement says so.
	Rebuilt   *attest.Rebuilt `json:"rebuilt,omitempty"`
	Manifests int             `json:"manifests"`
	Layers    int             `json:"layers"`
	// LayersVerified reports whether the layers were downloaded.
	LayersVerified bool `json:"layersVerified"`
	// Ignored is the number of statements of other keys or formats.
	Ignored int `json:"ignored,omitempty"`
}

// A mirror is a signed statement that an image was copied.
type mirror struct {
	// Key or Certificate is who signed the statement.
	Key         string    `json:"keyHint,omitempty"`
	Certificate *signedBy `json:"certificate,omitempty"`
	// Builder is the server that copied it.
	Builder string `json:"builder"`
	// Source and Target are "" unless they can be read without a login.
	Source     string `json:"source,omitempty"`
	Target     string `json:"target,omitempty"`
	ID         string `json:"mirrorId,omitempty"`
	FinishedOn string `json:"finishedOn,omitempty"`
}

func (m mirror) from() string {
	return cmp.Or(m.Source, "a source that the statement does not name")
}

func (r *result) table() (t output.Table) {
	t.Fact("Image", r.Image)
	t.Fact("Digest", r.Digest)
	signer := "of the key " + r.KeyHint + " (" + r.Key + ")"
	if c := r.Certificate; c != nil {
		signer = "by " + c.Identity + " (" + c.Issuer + ") at " + c.SignedAt + " (authorities: " + r.Key + ")"
	}
	if r.IsSigned {
		t.Fact("Signature", "valid, "+signer)
		t.Fact("Provenance", "valid: made by "+r.Builder)
		t.Fact("Build", r.Build)
		t.Fact("Inputs", strconv.Itoa(r.Inputs))
	} else {
		t.Fact("Signature", "none: the server did not make the image and does not vouch for its content, only for where it is from")
		t.Fact("Statements", "valid, "+signer)
	}
	slices.SortFunc(r.Mirrored, func(a, b mirror) int { return cmp.Compare(a.FinishedOn, b.FinishedOn) })
	for _, m := range r.Mirrored {
		t.Fact("Mirrored", strings.TrimRight("from "+m.from()+" by "+m.Builder+", "+m.FinishedOn, ", "))
	}
	if r.Rebuilt != nil {
		t.Fact("Made twice", "same bytes, by two workers, "+r.Rebuilt.Builds[1].FinishedOn)
	}
	t.Fact("Manifests", strconv.Itoa(r.Manifests)+" with their configs: the digests are correct")
	if r.LayersVerified {
		t.Fact("Layers", strconv.Itoa(r.Layers)+": the digests are correct")
	} else {
		t.Fact("Layers", strconv.Itoa(r.Layers)+", not downloaded (--layers verifies them)")
	}
	if r.Ignored > 0 {
		t.Fact("Ignored", strconv.Itoa(r.Ignored)+" statements of other keys or formats")
	}
	return t
}

var errUnsigned = errors.New("it has no signature: either Slipway did not make it, or it was copied without its signatures")
