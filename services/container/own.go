package container

import (
	"context"
	"fmt"
	"strings"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

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

// checkCache keeps layers out of the registry that the service itself pushes to,
// unless it is the caller's own login that they are pushed with: for that registry a
// build has one login, and it must not be ours.
func (s *Service) checkCache(ctx context.Context, c checked, who caller.ID) error {
	if c.raw.GetCacheRepository() == "" {
		return nil
	}
	registry, repository, err := oci.ParseRepository(c.raw.GetCacheRepository())
	if err != nil || s.deps.Builds.Registry == "" || !oci.SameHost(registry, s.deps.Builds.Registry) {
		return err
	}
	if c.raw.GetBuildRepository() != "" {
		login, err := s.deps.Keychain.Own(ctx, who, registry, repository)
		if err != nil || login != (upstream.Login{}) {
			return err
		}
	}
	return fault.Invalid.Newf("cacheRepository: this service pushes its own images to %s, with its own credentials; name a repository at another registry, "+
		"or add your credentials for it at the platform and give buildRepository too", registry)
}

// missing is what we say of an image that does not exist, and of one in our own
// repositories: whether it exists is nobody's business.
func missing(field string, image oci.Reference, cause error) error {
	return fault.Invalid.New(fmt.Sprintf("%s: %s does not exist", field, image), cause)
}
