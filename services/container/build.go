package container

import (
	"context"
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
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

func clientIP(ctx context.Context) string {
	if ip := rpc.CallFrom(ctx).ClientIP; ip.IsValid() {
		return ip.String()
	}
	return ""
}
