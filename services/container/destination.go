package container

import (
	"context"
	"fmt"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// destination looks at every image that the recipe names
// (gateway/contract/container-service.md#source-images). What is built from public
// ones alone is shared; anything else belongs to its caller, and so does what is
// pushed to a user's own repository. Packages of a channel that was read with a login
// are not public either.
func (s *Service) destination(ctx context.Context, r request.Request, who caller.ID) (request.Destination, error) {
	public, err := s.allPublic(ctx, who, r)
	if err != nil {
		return request.Destination{}, err
	}
	if r.Raw.GetBuildRepository() != "" {
		return r.GivenDestination(who)
	}
	to := s.ownDestination()
	if !public || r.IsDirect() && r.Foreseen.Solved.GetPrivate() {
		to = to.Of(who)
	}
	return to, nil
}

// copyDestination is where a copy of an existing image goes. One in the service's own
// repository is shared if everybody can read the image, and nothing is added to it.
func (s *Service) copyDestination(ctx context.Context, r request.Request, who caller.ID) (request.Destination, error) {
	if r.Raw.GetBuildRepository() != "" {
		return r.GivenDestination(who)
	}
	to := s.ownDestination()
	if s.deps.tokenIn(r.Image) != "" {
		return to.Of(who), nil
	}
	public, err := s.sources.IsPublic(ctx, "containerImage", r.Image)
	if !public || r.AddsToSif() {
		to = to.Of(who)
	}
	return to, err
}

// ownDestination is the service's own repository, for everybody.
func (s *Service) ownDestination() request.Destination {
	return request.Destination{Registry: s.deps.Builds.Registry, Repository: s.deps.Builds.Repository, Own: true}
}

// allPublic says whether everybody can read all images of a recipe; fault.Invalid
// when there is one that the caller cannot read.
func (s *Service) allPublic(ctx context.Context, who caller.ID, r request.Request) (bool, error) {
	all := true
	for _, p := range r.Recipe.Parts {
		for _, image := range p.Images {
			if scope, ok := r.Given[image]; ok {
				all = all && scope == ""
				continue
			}
			public, err := s.isPublic(ctx, who, r.Recipe.Field, image)
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
		return false, sources.NotFound(field, image, nil)
	}
	public, err := s.sources.IsPublic(ctx, field, image)
	if err == nil && !public {
		_, _, err = s.sources.Resolve(ctx, who, field, image)
	}
	return public, err
}

// errGiven says that a name that this service gave out is no base of anything built.
func errGiven(field string, image oci.Reference) error {
	return fault.Invalid.New(fmt.Sprintf("%s: %s stands for an image that a request added to: it can be pulled, added to and frozen, "+
		"but builds read images alone. Freeze it (`slipway image NAME --freeze REPOSITORY`), and name the frozen image", field, image), nil)
}
