package container

import (
	"context"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// formatSif asks for a Singularity image.
const formatSif = "sif"

func (c checked) isSif() bool { return c.raw.GetFormat() == formatSif }

// submitFrozen has an existing image copied to a repository of its caller's, with
// what the request adds, or a Singularity image made of it.
func (s *Service) submitFrozen(ctx context.Context, c checked, who *platformv1.Identity, data contents) (answer, error) {
	if s.deps.owns(c.image.Registry, c.image.Repository) {
		return answer{}, missing("containerImage", c.image, nil)
	}
	resolved, _, err := s.sources.resolve(ctx, caller.Of(who), "containerImage", c.image)
	if err != nil {
		return answer{}, err
	}
	registry, repository, err := oci.ParseRepository(c.raw.GetBuildRepository())
	if err != nil {
		return answer{}, err
	}
	recipe := &buildv1.Recipe{
		Engine: "freeze", Format: "oci", Platform: c.platform.String(), Config: bare(c.raw.GetContainerConfig()),
		Source: &containerv1.Source{Registry: c.image.Registry, Repository: c.image.Repository, Reference: resolved.String()},
	}
	if c.isSif() {
		recipe.Engine, recipe.Format = formatSif, formatSif
	}
	scope := scopeOf(caller.Of(who))
	digest := contentDigest(recipe, registry, repository, scope)
	return s.order(ctx, c, who, &buildv1.SubmitBuildRequest{
		ContentId: digest[:16], ContentDigest: digest, Recipe: recipe,
		Target: &buildv1.Target{Registry: registry, Repository: repository, Tag: digest[:16]},
		Scope:  scope, Identity: who, ClientIp: clientIP(ctx), DryRun: c.raw.GetDryRun(),
	}, data)
}

// sifOf is a Singularity image of what a build makes: that is built first, as it
// is where only the image was asked for, and then turned into the other.
func (c checked) sifOf(job *buildv1.SubmitBuildRequest, p place) *buildv1.SubmitBuildRequest {
	out := proto.CloneOf(job)
	out.ContentDigest = sifDigest(job)
	out.ContentId = out.GetContentDigest()[:16]
	out.Recipe = &buildv1.Recipe{
		Engine: formatSif, Format: formatSif, Platform: job.GetRecipe().GetPlatform(),
		ContainerFile: job.GetRecipe().GetContainerFile(), CondaFile: job.GetRecipe().GetCondaFile(),
	}
	path, tag := c.recipe.names.ImageName(c.raw.GetNameStrategy(), out.GetContentId())
	out.Target.Repository, out.Target.Tag, out.Target.CacheRepository = p.repository+path, tag, ""
	out.Repositories = nil
	out.Parts = []*buildv1.SubmitBuildRequest{job}
	return out
}

// checkPusher follows gateway/contract/container-service.md#singularity-images: a
// Singularity image is pushed with the caller's own credentials, which the platform
// has. Nobody waits for a build that cannot be pushed because the caller's role may
// not use them.
func (s *Service) checkPusher(ctx context.Context, c checked, who caller.ID) error {
	if c.raw.GetBuildRepository() == "" || who.IsAnonymous() && !c.isSif() {
		return nil
	}
	registry, repository, err := oci.ParseRepository(c.raw.GetBuildRepository())
	if err != nil {
		return err
	}
	access, err := s.deps.Keychain.Target(ctx, who, registry, repository)
	if err != nil {
		return err
	}
	if access.Withheld != "" {
		return fault.Invalid.Newf("buildRepository: nothing can be pushed to %s/%s: %s; ask for the role launch", registry, repository, access.Withheld)
	}
	if c.isSif() && access.Login == (upstream.Login{}) {
		return fault.Invalid.Newf("buildRepository: a Singularity image is pushed with your own credentials; add those for %s at the platform, and send an access token", registry)
	}
	return nil
}
