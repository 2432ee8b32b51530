package container

import (
	"context"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// checkAbilities refuses what this service, or this caller, would turn out to be unable
// to do after a while.
func (s *Service) checkAbilities(ctx context.Context, r request.Request, who caller.ID) error {
	if err := s.switchedOff(r.Raw); err != nil {
		return err
	}
	if err := s.checkPusher(ctx, r, who); err != nil {
		return err
	}
	return s.checkCache(ctx, r, who)
}

// switchedOff follows gateway/contract/container-service.md#capabilities, as far as
// this room knows.
func (s *Service) switchedOff(r *containerv1.ContainerRequest) error {
	switch {
	case request.IsRecipe(r) && (s.deps.Build == nil || s.deps.Builds == Builds{}):
		return fault.Unsupported.Newf("This service does not build images: give an existing one as containerImage")
	case r.GetFormat() == request.FormatSif && !r.GetFreeze() && (s.deps.Build == nil || s.deps.Builds == Builds{}):
		return fault.Unsupported.Newf("This service makes no Singularity images: leave format out, and have Singularity convert the name that is returned (docker://)")
	case r.GetFreeze() && s.deps.Build == nil:
		return fault.Unsupported.Newf("This service does not freeze images: leave freeze out, and pull the name that is returned")
	}
	return nil
}

// checkPusher follows gateway/contract/container-service.md#singularity-images: to a
// repository of the caller's a Singularity image is pushed with their own credentials,
// which the platform has. Nobody waits for a build that cannot be pushed because the caller's role may
// not use them.
func (s *Service) checkPusher(ctx context.Context, r request.Request, who caller.ID) error {
	if r.Raw.GetBuildRepository() == "" || who.IsAnonymous() && !r.IsSif() {
		return nil
	}
	registry, repository, err := oci.ParseRepository(r.Raw.GetBuildRepository())
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
	if r.IsSif() && access.Login == (upstream.Login{}) {
		return fault.Invalid.Newf("buildRepository: a Singularity image is pushed with your own credentials; add those for %s at the platform, and send an access token, "+
			"or leave buildRepository and freeze out", registry)
	}
	return nil
}

// checkCache keeps layers out of the registry that the service itself pushes to,
// unless it is the caller's own login that they are pushed with: for that registry a
// build has one login, and it must not be ours.
func (s *Service) checkCache(ctx context.Context, r request.Request, who caller.ID) error {
	if r.Raw.GetCacheRepository() == "" {
		return nil
	}
	registry, repository, err := oci.ParseRepository(r.Raw.GetCacheRepository())
	if err != nil || s.deps.Builds.Registry == "" || !oci.SameHost(registry, s.deps.Builds.Registry) {
		return err
	}
	if r.Raw.GetBuildRepository() != "" {
		login, err := s.deps.Keychain.Own(ctx, who, registry, repository)
		if err != nil || login != (upstream.Login{}) {
			return err
		}
	}
	return fault.Invalid.Newf("cacheRepository: this service pushes its own images to %s, with its own credentials; name a repository at another registry, "+
		"or add your credentials for it at the platform and give buildRepository too", registry)
}
