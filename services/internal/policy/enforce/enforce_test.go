package enforce_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/upstream"
)

// content is a registry of one repository.
type content struct {
	manifests map[string][]byte
	blobs     map[digest.Digest][]byte
	referrers []ocispec.Descriptor
	err       error
	reads     atomic.Int64
}

func (c *content) Manifest(ctx context.Context, _ upstream.Repository, ref string, _ upstream.Access) (oci.Document, error) {
	c.reads.Add(1)
	if c.err != nil {
		return oci.Document{}, c.err
	}
	raw, ok := c.manifests[ref]
	if !ok {
		return oci.Document{}, fault.NotFound.Newf("no manifest")
	}
	return oci.NewDocument(ocispec.MediaTypeImageManifest, raw), ctx.Err()
}

func (c *content) Referrers(context.Context, upstream.Repository, digest.Digest, upstream.Access) ([]ocispec.Descriptor, error) {
	c.reads.Add(1)
	return c.referrers, c.err
}

func (c *content) ReadBlob(_ context.Context, _ upstream.Repository, d digest.Digest, _ upstream.Access, _, _ int64) (io.ReadCloser, error) {
	c.reads.Add(1)
	raw, ok := c.blobs[d]
	if !ok {
		return nil, fault.NotFound.Newf("no blob")
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

// sign adds a bundle about a subject.
func (c *content) sign(t testing.TB, s *attest.Signer, subject digest.Digest, predicate string) {
	t.Helper()
	made, err := s.Sign(t.Context(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: subject, Size: 1}, predicate, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	at := digest.FromBytes(made.Manifest)
	c.manifests[at.String()], c.blobs[digest.FromBytes(made.Bundle)] = made.Manifest, made.Bundle
	c.referrers = append(c.referrers, ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: attest.BundleType, Digest: at, Size: int64(len(made.Manifest)), Annotations: map[string]string{attest.AnnotationPredicate: predicate},
	})
}

func newKey(t testing.TB) (s *attest.Signer, public []byte) {
	t.Helper()
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = attest.NewSigner(key); err != nil {
		t.Fatal(err)
	}
	if public, err = attest.PublicPEM(&key.PublicKey); err != nil {
		t.Fatal(err)
	}
	return s, public
}

func newEnforcer(t testing.TB, c *content, mode enforce.Mode, public []byte) *enforce.Enforcer {
	t.Helper()
	rules, err := policy.New(policy.Settings{Registries: []string{"quay.io"}, Signatures: []string{"quay.io/lab=key"}}, func(string) ([]byte, error) { return public, nil })
	if err != nil {
		t.Fatal(err)
	}
	return enforce.New(enforce.Options{Rules: rules, Mode: mode, Registries: c, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

func imageOf(name string) enforce.Image {
	return enforce.Image{Field: "containerImage", Name: oci.Reference{Registry: "quay.io", Repository: "lab/tool", Tag: name}, Digest: digest.FromString(name)}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	signer, public := newKey(t)
	other, _ := newKey(t)
	for _, c := range []struct {
		name string
		make func(*content, digest.Digest)
		want string // "" if it is signed
	}{
		{"signed", func(r *content, d digest.Digest) { r.sign(t, signer, d, attest.SignaturePredicate) }, ""},
		{"unsigned", func(*content, digest.Digest) {}, "it has no signature"},
		{"another key", func(r *content, d digest.Digest) { r.sign(t, other, d, attest.SignaturePredicate) }, "another key"},
		{"a statement", func(r *content, d digest.Digest) { r.sign(t, signer, d, attest.SPDXPredicate) }, "it has no signature"},
		{"a statement that is listed as a signature", func(r *content, d digest.Digest) {
			r.sign(t, signer, d, attest.SPDXPredicate)
			r.referrers[0].Annotations = map[string]string{attest.AnnotationPredicate: attest.SignaturePredicate}
		}, "is no signature but has the type"},
		{"another image", func(r *content, _ digest.Digest) {
			r.sign(t, signer, digest.FromString("x"), attest.SignaturePredicate)
		}, "refers to another image"},
		{"many", func(r *content, d digest.Digest) {
			r.sign(t, other, d, attest.SignaturePredicate)
			for range 10_000 {
				r.referrers = append(r.referrers, r.referrers[0])
			}
		}, "only the last 32 are read"},
		{"signed after some", func(r *content, d digest.Digest) {
			for range 100 {
				r.sign(t, other, d, attest.SignaturePredicate)
			}
			r.sign(t, signer, d, attest.SignaturePredicate)
		}, ""},
	} {
		r := &content{manifests: map[string][]byte{}, blobs: map[digest.Digest][]byte{}}
		image := imageOf(c.name)
		c.make(r, image.Digest)
		e := newEnforcer(t, r, enforce.Enforce, public)
		err := e.Signature(t.Context(), image)
		if c.want == "" && err != nil || c.want != "" && (!enforce.IsRefusal(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
		reads := r.reads.Load()
		if err := e.Signature(t.Context(), image); (err == nil) != (c.want == "") || r.reads.Load() != reads || reads > 2*limits.SignaturesRead+5 {
			t.Errorf("%s: again %v, after %d reads", c.name, err, reads)
		}
		if err := newEnforcer(t, r, enforce.Warn, public).Signature(t.Context(), image); err != nil {
			t.Errorf("%s: with warn %v", c.name, err)
		}
	}
}

// TestUnavailable checks that a registry that fails is not taken for one without signatures, and that
// its failure is not cached.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	signer, public := newKey(t)
	r := &content{manifests: map[string][]byte{}, blobs: map[digest.Digest][]byte{}, err: fault.Unavailable.Newf("down")}
	image := imageOf("a")
	e := newEnforcer(t, r, enforce.Enforce, public)
	if err := e.Signature(t.Context(), image); !errors.Is(err, fault.Unavailable) || enforce.IsRefusal(err) || !strings.Contains(err.Error(), "policy_signatures") {
		t.Errorf("it returned %v", err)
	}
	r.err = nil
	r.sign(t, signer, image.Digest, attest.SignaturePredicate)
	if err := e.Signature(t.Context(), image); err != nil {
		t.Errorf("when it works again: %v", err)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	e := newEnforcer(t, &content{}, enforce.Warn, nil)
	ctx, notes := enforce.WithNotes(t.Context())
	if got := notes.Texts(); got != nil {
		t.Errorf("there are notes: %v", got)
	}
	for i := range 2 * limits.PolicyNotes {
		for range 2 {
			if err := e.Image(ctx, "", oci.Reference{Registry: fmt.Sprintf("r%d.example.org", i), Repository: "a"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := notes.Texts(); len(got) != limits.PolicyNotes+2 || !strings.Contains(got[1], "policy_registries") {
		t.Errorf("the notes are %q", got)
	}
	var none *enforce.Enforcer
	if err := none.Image(ctx, "", oci.Reference{Registry: "x"}); err != nil || none.NeedsPackages(true) || none.MustBeSigned(oci.Reference{}) || none.Signature(ctx, enforce.Image{}) != nil {
		t.Error("without rules, something is refused")
	}
}

// TestForImagesWithoutAnEnforcer checks that rules of a build are not ignored.
func TestForImagesWithoutAnEnforcer(t *testing.T) {
	t.Parallel()
	var none *enforce.Enforcer
	if got, err := none.ForImages(nil); got != nil || err != nil {
		t.Errorf("no rules: %v, %v", got, err)
	}
	if _, err := none.ForImages(&buildv1.ImageRules{Mode: "enforce"}); err == nil {
		t.Error("the rules of a build were ignored")
	}
}
