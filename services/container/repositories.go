package container

import (
	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// checkRepositories returns fault.Denied if a request names a repository that the caller's access
// token is not for. In the recipe, issued names are already replaced by the images that they
// represent; elsewhere, and for images with additions, the name itself is checked when it is
// looked up (issued).
func (s *Service) checkRepositories(p request.Parsed, recipe request.Recipe, who *platformv1.Identity) error {
	id := caller.Of(who)
	images, err := p.Names(recipe, s.deps.CondaDefaults)
	if err != nil {
		return err
	}
	for _, image := range images {
		if _, own := recipe.Issued[image.Reference]; own || s.deps.tokenIn(image.Reference) != "" {
			continue
		}
		if err := id.CheckRepository(image.Field, image.Registry, image.Repository); err != nil {
			return err
		}
	}
	for field, name := range map[string]string{"buildRepository": p.Raw.GetBuildRepository(), "cacheRepository": p.Raw.GetCacheRepository()} {
		if name == "" {
			continue
		}
		host, repository, err := oci.ParseRepository(name)
		if err != nil {
			return fault.In(field, err)
		}
		if err := id.CheckRepository(field, host, repository); err != nil {
			return err
		}
	}
	return nil
}

// checkTargets returns fault.Denied if a build, or a build that it is made from, pushes to a
// repository that the caller's access token is not for. A nameStrategy or a mirror can add to the
// repository in the request.
func (s *Service) checkTargets(who *platformv1.Identity, b *buildv1.SubmitBuildRequest) error {
	t := b.GetTarget()
	if !s.deps.owns(t.GetRegistry(), t.GetRepository()) {
		if err := caller.Of(who).CheckRepository("buildRepository", t.GetRegistry(), t.GetRepository()); err != nil {
			return err
		}
	}
	for _, part := range b.GetParts() {
		if err := s.checkTargets(who, part); err != nil {
			return err
		}
	}
	return nil
}
