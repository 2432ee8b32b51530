package container

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A mirrored is the copy that a mirror has made.
type mirrored struct {
	id     string
	digest digest.Digest
	at     *buildv1.LocateBuildResponse
	repo   upstream.Repository
	access upstream.Access
}

// signMirror returns the signed provenance of a copy. There is no signature of the image: Slipway did
// not make its content and knows only where it was copied from.
func (s *Service) signMirror(ctx context.Context, m mirrored) ([]attest.Artifact, error) {
	copied := m.at.GetCopied()
	if copied == nil {
		return nil, fault.Unavailable.Newf("the build role is of an earlier release, and does not return what was copied")
	}
	made, err := s.deps.Upstream.Manifest(ctx, m.repo, m.digest.String(), m.access)
	if errors.Is(err, fault.NotFound) {
		return nil, fault.Unavailable.New("the registry "+m.repo.Host+" does not have it (yet)", err)
	}
	if err != nil {
		return nil, err
	}
	target := oci.Reference{Registry: m.repo.Host, Repository: m.repo.Name, Tag: m.at.GetTarget().GetTag(), Digest: digest.Digest(m.at.GetTarget().GetDigest())}
	of := attest.Resource{Name: "source", Digest: digests(m.digest)}
	p := attest.Parameters{Engine: "mirror", Format: "oci", ContentDigest: prefixed(copied.GetContentDigest())}
	// The next mirror of the copy copies the statement too, to readers who may not know the name.
	at := target
	at.Tag, at.Digest = "", m.digest
	if isPublic, err := s.sources.IsPublic(ctx, "buildRepository", at); err == nil && isPublic {
		p.Target = target.String()
	}
	if source := oci.ReferenceOf(copied.GetSource()); source.Registry != "" {
		of.URI = imageURI(source)
		source.Tag, source.Digest = target.Tag, target.Digest // a mirror keeps them
		p.Source = source.String()
	}
	if p.Platforms, err = s.platformsIn(ctx, made, m.repo, m.access); err != nil {
		return nil, err
	}
	if len(p.Platforms) > limits.AttestationPlatforms {
		p.Platforms, p.Omitted = nil, []string{"platforms"}
	}
	a, err := s.deps.Signing.Signer.SignMirror(ctx, ocispec.Descriptor{MediaType: made.MediaType, Digest: m.digest, Size: int64(len(made.Bytes))}, attest.Provenance{
		BuildDefinition: attest.BuildDefinition{BuildType: attest.BuildTypeMirrored, ExternalParameters: p, ResolvedDependencies: []attest.Resource{of}},
		RunDetails: attest.RunDetails{
			Builder:  attest.Builder{ID: s.deps.address()},
			Metadata: &attest.Metadata{InvocationID: m.id, StartedOn: attest.Timestamp(copied.GetStartedAt().AsTime()), FinishedOn: attest.Timestamp(copied.GetFinishedAt().AsTime())},
		},
	})
	if len(a.Bundle) > limits.AttestationBundle { // it could not be verified
		return nil, fault.Invalid.Newf("the signed statement would have %d bytes, and the limit is %d", len(a.Bundle), limits.AttestationBundle)
	}
	return []attest.Artifact{a}, err
}

// platformLength is the maximum length of a platform in bytes.
const platformLength = 100

// platformsIn returns the platforms of an image or an index, in its order and without repetitions; none
// for another artifact.
func (s *Service) platformsIn(ctx context.Context, doc oci.Document, repo upstream.Repository, access upstream.Access) (out []string, err error) {
	add := func(p ocispec.Platform) {
		if text := fault.Clip(platforms.Format(p), platformLength); p.OS != "" && p.OS != "unknown" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if oci.IsIndex(doc.MediaType) {
		index, err := oci.ParseIndex(doc)
		for _, m := range index.Manifests {
			if m.Platform != nil {
				add(*m.Platform)
			}
		}
		return out, err
	}
	m, err := oci.ParseManifest(doc)
	if err != nil || !oci.IsConfig(m.Config.MediaType) {
		return nil, err
	}
	raw, err := s.deps.Upstream.Source(repo, access).Config(ctx, m.Config)
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Invalid) {
		return nil, nil // the platform is a detail
	}
	if err != nil {
		return nil, err
	}
	var p ocispec.Platform
	if json.Unmarshal(raw, &p) == nil { // otherwise the copied image is damaged, as its source is
		add(p)
	}
	return out, nil
}

// noteMirror stores whether the provenance of a mirror is at its target, which the record of the mirror
// shows. A problem is why it is not.
func (s *Service) noteMirror(ctx context.Context, id, state string, problem error) error {
	req := &buildv1.NoteMirrorProvenanceRequest{BuildId: id, State: state}
	if problem != nil {
		req.Message = "The provenance cannot be attached to the copy: an internal error"
		if e, ok := fault.As(problem); ok {
			req.Message = "The provenance cannot be attached to the copy: " + e.Public
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventbus.AckWait/10) // also while the process stops
	defer cancel()
	_, err := s.deps.Build.NoteMirrorProvenance(ctx, req)
	if errors.Is(err, fault.NotFound) {
		return nil // its record was deleted
	}
	return err
}
