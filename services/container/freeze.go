package container

import (
	"context"

	"github.com/containerd/platforms"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/caller"
)

// frozenSource is the image that a copy is made of, as it is now, and with what.
func (s *Service) frozenSource(ctx context.Context, r request.Request, who *platformv1.Identity) (*containerv1.Plan, error) {
	if s.deps.tokenIn(r.Image) != "" {
		return s.frozenGiven(ctx, r, who)
	}
	if s.deps.owns(r.Image.Registry, r.Image.Repository) {
		return nil, sources.NotFound("containerImage", r.Image, nil)
	}
	resolved, _, err := s.sources.Resolve(ctx, caller.Of(who), "containerImage", r.Image)
	return &containerv1.Plan{
		Platform: platforms.Format(r.Platform()), Config: r.Added(),
		Source: &containerv1.Source{Registry: r.Image.Registry, Repository: r.Image.Repository, Reference: resolved.String()},
	}, err
}

// copyRequest asks the build room for a copy of an existing image as it is now.
func (s *Service) copyRequest(ctx context.Context, r request.Request, who *platformv1.Identity) (*buildv1.SubmitBuildRequest, error) {
	from, err := s.frozenSource(ctx, r, who)
	if err != nil {
		return nil, err
	}
	to, err := s.copyDestination(ctx, r, caller.Of(who))
	if err != nil {
		return nil, err
	}
	recipe := &buildv1.Recipe{
		Engine: "freeze", Format: "oci", Platform: from.GetPlatform(), Config: from.GetConfig(), Source: from.GetSource(),
	}
	if r.IsSif() {
		recipe.Engine, recipe.Format = request.FormatSif, request.FormatSif
	}
	digest := request.ContentDigest(recipe, to.Registry, to.Repository, to.Scope)
	return &buildv1.SubmitBuildRequest{
		ContentId: digest[:16], ContentDigest: digest, Recipe: recipe,
		Target: &buildv1.Target{Registry: to.Registry, Repository: to.Repository, Tag: digest[:16]},
		Scope:  to.Scope, Identity: who, ClientIp: clientIP(ctx), DryRun: r.Raw.GetDryRun(),
	}, nil
}
