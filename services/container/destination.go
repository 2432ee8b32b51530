package container

import (
	"context"
	"fmt"
	"strings"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// destination is where a built image goes, and who may have it.
type destination struct {
	registry, repository string
	// scope is "" for everybody.
	scope string
	// own says that it is the service's own repository.
	own bool
}

// destination looks at every image that the recipe names
// (gateway/contract/container-service.md#source-images). What is built from public
// ones alone is shared; anything else belongs to its caller, and so does what is
// pushed to a user's own repository. Packages of a channel that was read with a login
// are not public either.
func (s *Service) destination(ctx context.Context, r request, who caller.ID) (destination, error) {
	public, err := s.allPublic(ctx, who, r)
	if err != nil {
		return destination{}, err
	}
	if r.raw.GetBuildRepository() != "" {
		return r.givenDestination(who)
	}
	to := s.ownDestination()
	if !public || r.isDirect() && r.foreseen.solved.GetPrivate() {
		to = to.of(who)
	}
	return to, nil
}

// copyDestination is where a copy of an existing image goes. One in the service's own
// repository is shared if everybody can read the image, and nothing is added to it.
func (s *Service) copyDestination(ctx context.Context, r request, who caller.ID) (destination, error) {
	if r.raw.GetBuildRepository() != "" {
		return r.givenDestination(who)
	}
	to := s.ownDestination()
	if s.deps.tokenIn(r.image) != "" {
		return to.of(who), nil
	}
	public, err := s.sources.isPublic(ctx, "containerImage", r.image)
	if !public || r.addsToSif() {
		to = to.of(who)
	}
	return to, err
}

// givenDestination is the repository that the request names.
func (r request) givenDestination(who caller.ID) (destination, error) {
	registry, path, err := oci.ParseRepository(r.raw.GetBuildRepository())
	return destination{registry: registry, repository: path, scope: scopeOf(who)}, err
}

// ownDestination is the service's own repository, for everybody.
func (s *Service) ownDestination() destination {
	return destination{registry: s.deps.Builds.Registry, repository: s.deps.Builds.Repository, own: true}
}

// of is the part of the service's own repository that is one caller's alone.
func (d destination) of(who caller.ID) destination {
	if d.own && d.scope == "" {
		d.scope = scopeOf(who)
		d.repository += "/" + d.scope
	}
	return d
}

// allPublic says whether everybody can read all images of a recipe; fault.Invalid
// when there is one that the caller cannot read.
func (s *Service) allPublic(ctx context.Context, who caller.ID, r request) (bool, error) {
	all := true
	for _, p := range r.recipe.parts {
		for _, image := range p.images {
			if scope, ok := r.given[image]; ok {
				all = all && scope == ""
				continue
			}
			public, err := s.isPublic(ctx, who, r.recipe.field, image)
			if err != nil {
				return false, err
			}
			all = all && public
		}
	}
	return all, nil
}

// isPublic says whether everybody can read an image; fault.Invalid when not even the
// caller can.
func (s *Service) isPublic(ctx context.Context, who caller.ID, field string, image oci.Reference) (bool, error) {
	if s.deps.tokenIn(image) != "" {
		return false, errGiven(field, image)
	}
	if s.deps.owns(image.Registry, image.Repository) {
		return false, errImageNotFound(field, image, nil)
	}
	public, err := s.sources.isPublic(ctx, field, image)
	if err == nil && !public {
		_, _, err = s.sources.resolve(ctx, who, field, image)
	}
	return public, err
}

// owns says whether a repository is one of the service's own, or below it. What
// is in there is reached through token names alone.
func (s Settings) owns(registry, repository string) bool {
	own := s.OwnRepositories
	if s.Builds != (Builds{}) {
		own = append([]string{s.Builds.Registry + "/" + s.Builds.Repository}, own...)
	}
	for _, o := range own {
		host, path, _ := strings.Cut(o, "/")
		if oci.SameHost(registry, host) && strings.HasPrefix(repository+"/", path+"/") {
			return true
		}
	}
	return false
}

// errImageNotFound is what we say of an image that does not exist, and of one in our own
// repositories: whether it exists is nobody's business.
func errImageNotFound(field string, image oci.Reference, cause error) error {
	return fault.Invalid.New(fmt.Sprintf("%s: %s does not exist", field, image), cause)
}
