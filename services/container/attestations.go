package container

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"slices"

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
	// SifKey identifies the key that signs Singularity images, which is Signer's; "" for none.
	SifKey string
	// Retired are the public keys that the current key or certificates replaced, newest first.
	Retired []*ecdsa.PublicKey
	// TrustedRoot is the file with the authorities that certify the keys of Signer; nil for none.
	TrustedRoot []byte
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
	return memo.New(memo.Options[attested, []*containerv1.Attestation]{
		// Another statement may be made when an image was built again.
		Age:    limits.AttestationAge,
		Weight: limits.AttestationMemory,
		Weigh: func(_ attested, list []*containerv1.Attestation) uint32 {
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
	keys := s.deps.Signing.Retired
	if current := s.deps.Signing.Signer.Public(); current != nil {
		keys = slices.Concat([]*ecdsa.PublicKey{current}, keys)
	}
	if len(keys) == 0 {
		return nil, fault.NotFound.Newf("This server signs images with certificates instead of a key: verify the identity of the certificate (--certificate-identity, --certificate-oidc-issuer)")
	}
	pem, err := attest.PublicPEM(keys...)
	return &containerv1.GetSigningKeysResponse{Pem: string(pem)}, err
}

// GetTrustedRoot returns the authorities that certify the keys of signatures.
func (s *Service) GetTrustedRoot(context.Context, *containerv1.GetTrustedRootRequest) (*containerv1.GetTrustedRootResponse, error) {
	if s.deps.Signing.TrustedRoot == nil {
		return nil, fault.NotFound.Newf("This server has no trusted root: its operator can set signing_fulcio and signing_trusted_root")
	}
	return &containerv1.GetTrustedRootResponse{Json: string(s.deps.Signing.TrustedRoot)}, nil
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
	from, err := s.origin(ctx, plan, subject.Digest)
	if err != nil {
		return nil, err
	}
	all, err := s.sign(ctx, subject, from)
	var out []*containerv1.Attestation
	for _, a := range all {
		out = append(out, &containerv1.Attestation{Manifest: a.Manifest, Bundle: a.Bundle})
	}
	return out, err
}

// An origin is how an image was made.
type origin struct {
	provenance *attest.Provenance
	// build has the inputs of the build that made the image, or the image below; nil if none did.
	build *buildv1.DescribeInputsResponse
	// isBuilt reports whether the build made this manifest, and not only the image below.
	isBuilt bool
}

// sign returns the signed statements about a manifest: the signature, the provenance, and the SBOM
// of the Conda packages if they are known.
func (s *Service) sign(ctx context.Context, subject ocispec.Descriptor, from origin) ([]attest.Artifact, error) {
	bill, err := condaBill(subject.Digest, from.build)
	if err != nil {
		return nil, err
	}
	if len(bill) > limits.AttestationSBOM {
		p := &from.provenance.BuildDefinition.ExternalParameters
		bill, p.Omitted = nil, append(p.Omitted, "sbom")
	}
	signer := s.deps.Signing.Signer
	signature, err := signer.SignImage(ctx, subject)
	if err != nil {
		return nil, err
	}
	provenance, err := signer.Sign(ctx, subject, attest.ProvenancePredicate, from.provenance)
	if err != nil {
		return nil, err
	}
	all := []attest.Artifact{signature, provenance}
	if again := rebuiltOf(from.build); again != nil && from.isBuilt {
		made, err := signer.Sign(ctx, subject, attest.RebuiltPredicate, again)
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	if bill != nil {
		list, err := signer.Sign(ctx, subject, attest.SPDXPredicate, json.RawMessage(bill))
		if err != nil {
			return nil, err
		}
		all = append(all, list)
	}
	for _, a := range all {
		if len(a.Bundle) > limits.AttestationBundle { // it could not be verified
			return nil, fault.Invalid.Newf("A signed statement about the image would have %d bytes, and the limit is %d", len(a.Bundle), limits.AttestationBundle)
		}
	}
	return all, nil
}

// origin returns how a manifest of a plan's image was made, or errNotMade.
func (s *Service) origin(ctx context.Context, plan *containerv1.Plan, d digest.Digest) (origin, error) {
	if add := oci.NewAugmentation(plan.GetConfig()); !add.IsZero() {
		source, root, err := s.augmentedFrom(ctx, plan, add, d)
		if err != nil {
			return origin{}, err
		}
		if source != "" {
			return s.augmentedOrigin(ctx, plan, source, root)
		}
	}
	if plan.GetBuildId() == "" {
		return origin{}, errNotMade
	}
	in, err := s.inputs(ctx, plan.GetBuildId(), d)
	if err != nil {
		return origin{}, err
	}
	return origin{s.provenanceOf(in), in, true}, nil
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

// augmentedOrigin returns the origin of a manifest that results from source, which belongs to the
// image root. If a build has made it, the provenance includes the inputs of the build. The name of
// the source is only present if a login was not needed to read it.
func (s *Service) augmentedOrigin(ctx context.Context, plan *containerv1.Plan, source, root digest.Digest) (origin, error) {
	out := origin{provenance: &attest.Provenance{RunDetails: attest.RunDetails{Builder: attest.Builder{ID: s.deps.address()}}}}
	of := attest.Resource{Name: "source", Digest: digests(source)}
	if plan.GetIdentity() == nil && plan.GetBuildId() == "" {
		image := oci.ReferenceOf(plan.GetSource())
		image.Tag, image.Digest = "", source
		of.URI = imageURI(image)
	}
	if build := plan.GetBuildId(); build != "" {
		in, err := s.inputs(ctx, build, root)
		if err != nil && !errors.Is(err, errNotMade) {
			return origin{}, err
		}
		if err == nil {
			out = origin{s.provenanceOf(in), in, false}
		}
	}
	def := &out.provenance.BuildDefinition
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
