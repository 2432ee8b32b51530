package container

import (
	"context"
	"slices"

	"github.com/containerd/platforms"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// buildRequest is what the build room is asked for: one build, a Singularity image of
// it, or one build for each of two platforms and an index over them.
func (s *Service) buildRequest(ctx context.Context, r request.Request, who *platformv1.Identity, to request.Destination, contextData []byte) (*buildv1.SubmitBuildRequest, error) {
	var builds []*buildv1.SubmitBuildRequest
	for _, p := range r.Recipe.Parts {
		b, err := s.partRequest(ctx, r, p, who, to)
		if err != nil {
			return nil, err
		}
		if b.GetRecipe().GetContext() != nil {
			b.Recipe.ContextData = contextData
		}
		builds = append(builds, b)
	}
	switch {
	case len(builds) > 1:
		return r.IndexOf(builds, to), nil
	case r.IsSif():
		if r.AddsToSif() {
			to = to.Of(caller.Of(who))
		}
		return r.SifOf(builds[0], to), nil
	}
	return builds[0], nil
}

// partRequest asks for the build for one platform.
func (s *Service) partRequest(ctx context.Context, r request.Request, p request.Part, who *platformv1.Identity, to request.Destination) (*buildv1.SubmitBuildRequest, error) {
	lock, preface := r.Foreseen.Of(p.Platform, r.IsDirect())
	recipe := r.Message(p.Platform)
	if r.IsDirect() {
		recipe = r.DirectMessage(p.Platform, lock)
	}
	digest := request.ContentDigest(recipe, to.Registry, to.Repository, to.Scope)
	b := &buildv1.SubmitBuildRequest{
		ContentId: digest[:16], ContentDigest: digest, Recipe: recipe, Scope: to.Scope,
		Target:   &buildv1.Target{Registry: to.Registry, CacheRepository: r.Raw.GetCacheRepository()},
		Identity: who, ClientIp: clientIP(ctx), DryRun: r.Raw.GetDryRun(),
		Lock: lock, Preface: preface,
	}
	r.SetName(b, to)
	if !to.Own && s.deps.owns(to.Registry, b.GetTarget().GetRepository()) {
		return nil, fault.Invalid.Newf("buildRepository: the image's name would belong to this service; use another nameStrategy")
	}
	if to.Scope != "" {
		b.Repositories = repositories(p.Images)
	}
	b.GivenImages = r.GivenAmong(p.Images)
	return b, nil
}

// repositories are those that images lie in, "<host>/<path>", each once.
func repositories(images []oci.Reference) []string {
	var out []string
	for _, image := range images {
		if name := image.Registry + "/" + image.Repository; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

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
