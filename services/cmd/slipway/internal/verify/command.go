// Package verify implements `slipway verify`, which verifies the signature and the provenance of an
// image.
package verify

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
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
	key    string
	layers bool
	plain  []string
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
key, which is fetched from it, or of a key in the file --key. The digests of all
manifests and configs of the image are verified; with --layers, also those of its
layers, which are downloaded for it. The exit code is 1 if anything is missing or
was changed.

A key that is fetched from the server protects against registries and mirrors that
change an image, but not against the server itself: store the key that you trust,
and use --key. ` + "`cosign verify --key`" + ` verifies the same signatures.`,
		Example: "  slipway verify slipway.example.org/wt/…/samtools:1.20\n  slipway verify registry.example.org/team/samtools:1.20 --key cosign.pub --layers",
		Args:    usage.Exactly(1),
	}
	cmd.Flags().StringVar(&f.key, "key", "", "A `file` with the public keys to trust, as PEM, instead of the server's.")
	cmd.Flags().BoolVar(&f.layers, "layers", false, "Download all layers, and verify their digests.")
	cmd.Flags().StringArrayVar(&f.plain, "plain-http", nil, "A `registry` to read with plain HTTP, e.g. registry.example.org:5000; may be repeated.")
	usage.CompleteFlag(cmd, "plain-http")
	format := output.Flag(cmd)
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
	keys, from, server, err := f.keys(cmd, s)
	if err != nil {
		return nil, err
	}
	v := &verifier{client: bundle.NewClient(s.Version, server, at.Registry, f.plain), at: at, keys: keys}
	r, err := v.image(cmd.Context(), f.layers)
	if err != nil {
		return nil, fmt.Errorf("the image %s is not verified: %w", image, err)
	}
	r.Image, r.Key = image, from
	return r, nil
}

// keys returns the keys to trust, where they are from, and the server if there is one.
func (f *flags) keys(cmd *cobra.Command, s *session.Settings) (keys []*ecdsa.PublicKey, from string, server *url.URL, err error) {
	c, noServer := s.Client()
	if noServer == nil {
		server = c.Base
	}
	var raw []byte
	switch {
	case f.key != "":
		from = f.key
		raw, err = readKey(f.key)
	case noServer != nil:
		return nil, "", nil, noServer
	default:
		from = c.Base.Redacted()
		if raw, err = c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/.well-known/slipway/cosign.pub"}, nil); err != nil {
			err = fmt.Errorf("fetching the server's public key: %w", err)
		}
	}
	if err != nil {
		return nil, "", nil, err
	}
	if keys, err = attest.ParsePublicKeys(raw); err != nil {
		err = fmt.Errorf("the public key of %s: %w", from, err)
	}
	return keys, from, server, err
}

func readKey(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limits.SigningKeyFile))
}

// A result is what was verified.
type result struct {
	Image     string   `json:"image"`
	Digest    string   `json:"digest"`
	Key       string   `json:"key"`
	KeyHint   string   `json:"keyHint"`
	Statement []string `json:"statements"`
	Builder   string   `json:"builder"`
	BuildType string   `json:"buildType"`
	Build     string   `json:"buildId,omitempty"`
	Inputs    int      `json:"inputs"`
	Manifests int      `json:"manifests"`
	Layers    int      `json:"layers"`
	// LayersVerified reports whether the layers were downloaded.
	LayersVerified bool `json:"layersVerified"`
	// Ignored is the number of statements of other keys or formats.
	Ignored int `json:"ignored,omitempty"`
}

func (r *result) table() (t output.Table) {
	t.Fact("Image", r.Image)
	t.Fact("Digest", r.Digest)
	t.Fact("Signature", "valid, of the key "+r.KeyHint+" ("+r.Key+")")
	t.Fact("Provenance", "valid: made by "+r.Builder)
	t.Fact("Build", r.Build)
	t.Fact("Inputs", strconv.Itoa(r.Inputs))
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
