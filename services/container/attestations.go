package container

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"slices"

	"github.com/maypok86/otter/v2"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
)

// Signing holds the keys for statements about images. The zero value signs nothing.
type Signing struct {
	// Signer signs with the current key; nil if the service does not sign.
	Signer *attest.Signer
	// Retired are the public keys that the current key replaced, newest first.
	Retired []*ecdsa.PublicKey
}

// An attested identifies statements about a manifest of one request.
type attested struct {
	request   string
	digest    digest.Digest
	mediaType string
	size      int64
}

// statements caches signed statements. They need not be stored, since signing them again yields
// the same bytes.
type statements = memo.Memo[attested, []*containerv1.Attestation]

func newStatements() *statements {
	return memo.New(&otter.Options[attested, []*containerv1.Attestation]{
		MaximumWeight: limits.AttestationMemory,
		Weigher: func(_ attested, list []*containerv1.Attestation) uint32 {
			n := 256
			for _, a := range list {
				n += len(a.GetManifest()) + len(a.GetBundle())
			}
			return uint32(n)
		},
	})
}

// GetSigningKeys returns the public keys, the current one first.
func (s *Service) GetSigningKeys(context.Context, *containerv1.GetSigningKeysRequest) (*containerv1.GetSigningKeysResponse, error) {
	if s.deps.Signing.Signer == nil {
		return nil, fault.NotFound.Newf("This server does not sign images: its operator can set signing_key_file")
	}
	keys := slices.Concat([]*ecdsa.PublicKey{s.deps.Signing.Signer.Public()}, s.deps.Signing.Retired)
	pem, err := attest.PublicPEM(keys...)
	return &containerv1.GetSigningKeysResponse{Pem: string(pem)}, err
}

// errNotMade is returned for a manifest that this service did not make.
var errNotMade = errors.New("the manifest was not made by this service")

// ListAttestations signs the statements about a manifest. The caller does not decide what is
// signed: the service itself computes or looks up the digests of the request's image.
func (s *Service) ListAttestations(ctx context.Context, req *containerv1.ListAttestationsRequest) (*containerv1.ListAttestationsResponse, error) {
	d, err := digest.Parse(req.GetDigest())
	if err != nil {
		return nil, fault.Invalid.New("The digest is malformed", err)
	}
	kind := req.GetMediaType()
	if !oci.IsIndex(kind) && !oci.IsManifest(kind) || req.GetSize() <= 0 || req.GetSize() > limits.Document {
		return nil, fault.Invalid.Newf("The media type or the size is not that of a manifest")
	}
	rec, err := s.live(ctx, req.GetToken())
	if err != nil || s.deps.Signing.Signer == nil || rec.Plan.GetFrozen() {
		return &containerv1.ListAttestationsResponse{}, err
	}
	key := attested{request: rec.Key, digest: d, mediaType: kind, size: req.GetSize()}
	list, err := s.statements.Get(ctx, key, func(ctx context.Context) ([]*containerv1.Attestation, error) {
		return s.attest(ctx, rec.Plan, ocispec.Descriptor{MediaType: kind, Digest: d, Size: req.GetSize()})
	})
	if errors.Is(err, errNotMade) {
		return &containerv1.ListAttestationsResponse{}, nil
	}
	return &containerv1.ListAttestationsResponse{Attestations: list}, err
}

// attest returns the signed statements about a manifest of a plan, or errNotMade.
func (s *Service) attest(ctx context.Context, plan *containerv1.Plan, subject ocispec.Descriptor) ([]*containerv1.Attestation, error) {
	provenance, err := s.provenance(ctx, plan, subject.Digest)
	if err != nil {
		return nil, err
	}
	signed, err := s.deps.Signing.Signer.SignImage(subject)
	if err != nil {
		return nil, err
	}
	made, err := s.deps.Signing.Signer.Sign(subject, attest.ProvenancePredicate, provenance)
	if err != nil {
		return nil, err
	}
	var out []*containerv1.Attestation
	for _, a := range []attest.Artifact{signed, made} {
		if len(a.Bundle) > limits.AttestationBundle { // it could not be verified
			return nil, fault.Invalid.Newf("A signed statement about the image would have %d bytes, and the limit is %d", len(a.Bundle), limits.AttestationBundle)
		}
		out = append(out, &containerv1.Attestation{Manifest: a.Manifest, Bundle: a.Bundle})
	}
	return out, nil
}

// provenance returns how a manifest of a plan's image was made, or errNotMade.
func (s *Service) provenance(ctx context.Context, plan *containerv1.Plan, d digest.Digest) (*attest.Provenance, error) {
	if add := oci.NewAugmentation(plan.GetConfig()); !add.IsZero() {
		source, root, err := s.augmentedFrom(ctx, plan, add, d)
		if err != nil {
			return nil, err
		}
		if source != "" {
			return s.augmentedProvenance(ctx, plan, source, root)
		}
	}
	if plan.GetBuildId() == "" {
		return nil, errNotMade
	}
	in, err := s.inputs(ctx, plan.GetBuildId(), d)
	if err != nil {
		return nil, err
	}
	return s.provenanceOf(in), nil
}

// augmentedFrom returns the digest of the manifest or index from which d results, and that of the
// image that contains it. Both are "" if d is not a manifest that the augmentation has changed.
func (s *Service) augmentedFrom(ctx context.Context, plan *containerv1.Plan, add oci.Augmentation, d digest.Digest) (source, root digest.Digest, err error) {
	platforms, err := oci.ParsePlatforms(plan.GetPlatform())
	if err != nil {
		return "", "", err
	}
	image := oci.ReferenceOf(plan.GetSource())
	access, err := s.accessTo(ctx, plan.GetIdentity(), plan.GetBuildId(), image)
	if err != nil {
		return "", "", err
	}
	for _, root := range plan.GetDigests() {
		image.Digest = digest.Digest(root)
		made, err := s.sources.Augmented(ctx, image, access, plan.GetBuildId() != "", add, platforms...)
		if errors.Is(err, fault.NotFound) {
			continue // its registry has deleted what the tag once referred to
		}
		if err != nil {
			return "", "", err
		}
		if source, ok := made[d]; ok {
			return source, image.Digest, nil
		}
	}
	return "", "", nil
}

// inputs returns what a build made a manifest from, or errNotMade.
func (s *Service) inputs(ctx context.Context, build string, d digest.Digest) (*buildv1.DescribeInputsResponse, error) {
	if s.deps.Build == nil {
		return nil, errNotMade // builds were disabled later
	}
	in, err := s.deps.Build.DescribeInputs(ctx, &buildv1.DescribeInputsRequest{BuildId: build, Digest: d.String()})
	if errors.Is(err, fault.NotFound) {
		return nil, errNotMade
	}
	return in, err
}

// augmentedProvenance returns the provenance of a manifest that results from source, which belongs
// to the image root. If a build has made it, the provenance includes the inputs of the build. The
// name of the source is only present if a login was not needed to read it.
func (s *Service) augmentedProvenance(ctx context.Context, plan *containerv1.Plan, source, root digest.Digest) (*attest.Provenance, error) {
	out := &attest.Provenance{RunDetails: attest.RunDetails{Builder: attest.Builder{ID: s.deps.address()}}}
	of := attest.Resource{Name: "source", Digest: digests(source)}
	if plan.GetIdentity() == nil && plan.GetBuildId() == "" {
		image := oci.ReferenceOf(plan.GetSource())
		image.Tag, image.Digest = "", source
		of.URI = imageURI(image)
	}
	if build := plan.GetBuildId(); build != "" {
		in, err := s.inputs(ctx, build, root)
		if err != nil && !errors.Is(err, errNotMade) {
			return nil, err
		}
		if err == nil {
			out = s.provenanceOf(in)
		}
	}
	def := &out.BuildDefinition
	def.BuildType = attest.BuildTypeAugmented
	if len(def.ExternalParameters.Platforms) == 0 {
		def.ExternalParameters.Platforms = platformsOf(plan.GetPlatform())
	}
	c := plan.GetConfig()
	def.ExternalParameters.Config = addedConfig(c)
	def.ResolvedDependencies = append(def.ResolvedDependencies, of)
	for _, l := range c.GetLayers() {
		def.ResolvedDependencies = append(def.ResolvedDependencies, layerResource(l))
	}
	return out, nil
}

// address returns the public address of the service, which identifies it in provenance.
func (s Settings) address() string {
	if s.PublicURL != "" {
		return s.PublicURL
	}
	return "https://" + s.Host
}
