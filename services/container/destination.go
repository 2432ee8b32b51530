package container

import (
	"context"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// destination checks every image of a plan
// (gateway/contract/container-service.md#source-images) and returns where the result is
// stored. A build that only reads public images is shared. An image belongs to its caller if
// it is built from other images, is pushed to a user's own repository, or has packages from a
// channel that was read with a login.
func (s *Service) destination(ctx context.Context, r request.Resolved, plan request.BuildPlan) (request.Destination, error) {
	public, err := s.allPublic(ctx, r, plan)
	if err != nil {
		return request.Destination{}, err
	}
	if r.Raw.GetBuildRepository() != "" {
		return r.UserDestination()
	}
	to := s.ownDestination()
	if r.Raw.GetKeep() {
		if !public || plan.MayBePrivate {
			return to, fault.Invalid.Newf("keep: the image would be public, but its base image or a channel is only readable with a login; leave keep out")
		}
		to.Repository += "/" + oci.KeptRepository
		return to, nil
	}
	if !public || plan.MayBePrivate {
		to = to.Of(caller.Of(r.Caller))
	}
	return to, nil
}

// copyDestination returns where a copy of an existing image is stored. A copy in the
// service's own repository is shared if the image is public and nothing is added to it.
func (s *Service) copyDestination(ctx context.Context, r request.Resolved) (request.Destination, error) {
	if r.Raw.GetBuildRepository() != "" {
		return r.UserDestination()
	}
	to := s.ownDestination()
	if s.deps.tokenIn(r.Image) != "" {
		return to.Of(caller.Of(r.Caller)), nil
	}
	public, err := s.sources.IsPublic(ctx, "containerImage", r.Image)
	if !public || r.AddsToSif() {
		to = to.Of(caller.Of(r.Caller))
	}
	return to, err
}

// ownDestination returns the service's own repository, shared by all callers.
func (s *Service) ownDestination() request.Destination {
	return request.Destination{Registry: s.deps.Builds.Registry, Repository: s.deps.Builds.Repository, Own: true}
}

// allPublic reports whether all images of a plan are public. It returns fault.Invalid if
// the caller cannot read one of them.
func (s *Service) allPublic(ctx context.Context, r request.Resolved, plan request.BuildPlan) (bool, error) {
	all := true
	for _, p := range plan.Parts {
		for _, image := range p.Images {
			if scope, ok := r.Issued[image]; ok {
				all = all && scope == ""
				continue
			}
			public, err := s.isPublic(ctx, caller.Of(r.Caller), plan.Field, image)
			if err != nil {
				return false, err
			}
			all = all && public
			if s.deps.Policy.MustBeSigned(image) { // the build applies the rule to the digest that it uses
				if _, _, err := s.currentDigest(ctx, r.Caller, plan.Field, image); err != nil {
					return false, err
				}
			}
		}
	}
	return all, nil
}

// isPublic reports whether an image is public. It returns fault.Invalid if the caller
// cannot read it.
func (s *Service) isPublic(ctx context.Context, who caller.ID, field string, image oci.Reference) (bool, error) {
	if s.deps.tokenIn(image) != "" {
		return false, errAugmented(field, image)
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

// errAugmented returns the fault for an image name with additions that a build uses as its
// base.
func errAugmented(field string, image oci.Reference) error {
	return fault.Invalid.Newf("%s: %s is an image with additions of a request: it can be pulled, added to and frozen, "+
		"but builds can only read images without additions. Freeze it (`slipway image NAME --freeze REPOSITORY`), and name the frozen image", field, image)
}
