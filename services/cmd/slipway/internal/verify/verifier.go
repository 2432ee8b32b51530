package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/limits"
)

// A verifier verifies one image.
type verifier struct {
	client *regclient.RegClient
	at     ref.Ref
	by     trusted
	// mirrored accepts an image that the server has only mirrored.
	mirrored bool
}

// image verifies the signature, the provenance and the content of the image.
func (v *verifier) image(ctx context.Context, layers bool) (*result, error) {
	raw, d, err := v.manifest(ctx, v.at)
	if err != nil {
		return nil, err
	}
	r := &result{Digest: d.String(), LayersVerified: layers}
	if err := v.statements(ctx, d, r); err != nil {
		return nil, err
	}
	return r, v.content(ctx, raw, r, layers, 0)
}

// manifest returns a manifest and its digest, which is verified.
func (v *verifier) manifest(ctx context.Context, at ref.Ref) ([]byte, digest.Digest, error) {
	m, err := v.client.ManifestGet(ctx, at)
	if err != nil {
		return nil, "", fmt.Errorf("reading a manifest: %w", err)
	}
	raw, err := m.RawBody()
	if err != nil {
		return nil, "", err
	}
	want := m.GetDescriptor().Digest
	if at.Digest != "" {
		want = digest.Digest(at.Digest)
	}
	if got := digest.FromBytes(raw); got != want {
		return nil, "", fmt.Errorf("the registry returned the manifest %s instead of %s", got, want)
	}
	return raw, want, nil
}

// statements verifies that there are a signature and provenance of the keys.
func (v *verifier) statements(ctx context.Context, d digest.Digest, r *result) error {
	list, err := v.client.ReferrerList(ctx, v.at.SetDigest(d.String()))
	if err != nil {
		return fmt.Errorf("listing its signatures: %w", err)
	}
	if len(list.Descriptors) > limits.Referrers {
		return fmt.Errorf("more than %d manifests refer to it", limits.Referrers)
	}
	var problems []error
	found := map[string]bool{}
	for _, one := range list.Descriptors {
		if one.ArtifactType != attest.BundleType {
			r.Ignored++
			continue
		}
		kind, err := v.statement(ctx, one, d, r)
		if err != nil {
			r.Ignored++
			problems = append(problems, err)
			continue
		}
		if !found[kind] {
			found[kind] = true
			r.Statement = append(r.Statement, kind)
		}
	}
	r.IsSigned = found[attest.SignaturePredicate]
	switch {
	case r.IsSigned && r.Builder != "", v.mirrored && len(r.Mirrored) > 0 && !r.IsSigned:
		return nil
	case len(r.Mirrored) > 0 && !r.IsSigned:
		return fmt.Errorf("it has no signature: %s has mirrored it from %s, and does not vouch for its content; --mirrored verifies only where it is from", r.Mirrored[0].Builder, r.Mirrored[0].from())
	case len(problems) > 0:
		return problems[0]
	case len(found) == 0:
		return errUnsigned
	case !r.IsSigned:
		return errors.New("it has no signature, but other signed statements")
	}
	return errors.New("it is signed, but has no signed provenance")
}

// statement verifies one signed statement about a manifest and returns the type of its predicate.
func (v *verifier) statement(ctx context.Context, one descriptor.Descriptor, d digest.Digest, r *result) (string, error) {
	raw, _, err := v.manifest(ctx, v.at.SetDigest(one.Digest.String()))
	if err != nil {
		return "", fmt.Errorf("the signature %s: %w", one.Digest, err)
	}
	layer, err := attest.BundleOf(raw, d)
	if err != nil {
		return "", fmt.Errorf("the signature %s: %w", one.Digest, err)
	}
	content, err := v.blob(ctx, layer, limits.AttestationBundle)
	if err != nil {
		return "", fmt.Errorf("the signature %s: %w", one.Digest, err)
	}
	signer := &result{}
	s, err := v.by.verify(attest.Artifact{Manifest: raw, Bundle: content}, d, signer)
	if err == nil {
		err = r.read(s, signer)
	}
	if err != nil {
		return "", fmt.Errorf("the signature %s: %w", one.Digest, err)
	}
	return s.PredicateType, nil
}

// read adds what a verified statement says. The argument by has who signed it.
func (r *result) read(s *attest.Statement, by *result) (err error) {
	if s.PredicateType == attest.SignaturePredicate || r.KeyHint == "" && r.Certificate == nil {
		r.KeyHint, r.Certificate = by.KeyHint, by.Certificate
	}
	if s.PredicateType == attest.RebuiltPredicate {
		r.Rebuilt, err = s.Rebuilt()
		return err
	}
	if s.PredicateType != attest.ProvenancePredicate {
		return nil
	}
	p, err := s.Provenance()
	if err != nil {
		return err
	}
	def, builder, run := p.BuildDefinition, p.RunDetails.Builder.ID, attest.Metadata{}
	if p.RunDetails.Metadata != nil {
		run = *p.RunDetails.Metadata
	}
	switch {
	case s.IsMirror: // a statement about the copy
		r.Mirrored = append(r.Mirrored, mirror{Key: by.KeyHint, Certificate: by.Certificate, Builder: builder, Source: def.ExternalParameters.Source, Target: def.ExternalParameters.Target, ID: run.InvocationID, FinishedOn: run.FinishedOn})
	case r.Builder == "": // further statements are about other builds of the same bytes
		r.Builder, r.BuildType, r.Build, r.Inputs = builder, def.BuildType, run.InvocationID, len(def.ResolvedDependencies)
	}
	return nil
}

// content verifies the digests of everything that a manifest refers to.
func (v *verifier) content(ctx context.Context, raw []byte, r *result, layers bool, depth int) error {
	var m struct {
		Config    ocispec.Descriptor   `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("a manifest is malformed: %w", err)
	}
	if r.Manifests++; depth > limits.BundleDepth || r.Manifests > limits.WalkManifests {
		return fmt.Errorf("it has more than %d manifests, or they are more than %d references deep", limits.WalkManifests, limits.BundleDepth)
	}
	for _, child := range m.Manifests {
		below, _, err := v.manifest(ctx, v.at.SetDigest(child.Digest.String()))
		if err != nil {
			return err
		}
		if err := v.content(ctx, below, r, layers, depth+1); err != nil {
			return err
		}
	}
	if m.Config.Digest != "" {
		if _, err := v.blob(ctx, m.Config, limits.Document); err != nil {
			return fmt.Errorf("a config: %w", err)
		}
	}
	for _, l := range m.Layers {
		r.Layers++
		if !layers {
			continue
		}
		if err := v.copy(ctx, l, io.Discard); err != nil {
			return fmt.Errorf("a layer: %w", err)
		}
	}
	return nil
}

// blob returns a small blob, whose digest is verified.
func (v *verifier) blob(ctx context.Context, d ocispec.Descriptor, limit int64) ([]byte, error) {
	if d.Size < 0 || d.Size > limit {
		return nil, fmt.Errorf("the blob %s has %d bytes, and the limit is %d", d.Digest, d.Size, limit)
	}
	var b strings.Builder
	err := v.copy(ctx, d, &b)
	return []byte(b.String()), err
}

// copy copies a blob and verifies its size and digest.
func (v *verifier) copy(ctx context.Context, d ocispec.Descriptor, to io.Writer) error {
	if err := d.Digest.Validate(); err != nil {
		return fmt.Errorf("the digest %.100q is invalid: %w", d.Digest, err)
	}
	from, err := v.client.BlobGet(ctx, v.at, descriptor.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size})
	if err != nil {
		return fmt.Errorf("reading the blob %s: %w", d.Digest, err)
	}
	defer func() { _ = from.Close() }() // the digest of what was read is verified
	sum := d.Digest.Verifier()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, d.Size+1))
	switch {
	case n == d.Size && sum.Verified():
		return nil
	case n >= d.Size || err == nil: // the client may also report the wrong digest
		return fmt.Errorf("the blob %s was changed: its content does not have this digest", d.Digest)
	}
	return fmt.Errorf("reading the blob %s: %w", d.Digest, err)
}
