package build

import (
	"context"
	"errors"
	"slices"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// isMounted reports whether an image, or one that it lists, is stored with the artifact with which its
// environment is mounted.
func isMounted(req *buildv1.SubmitBuildRequest) bool {
	return store.HasEnvironment(req.GetRecipe()) || slices.ContainsFunc(req.GetParts(), isMounted)
}

// FindEnvironments returns the builds of the environment of a lock.
func (s *Service) FindEnvironments(ctx context.Context, req *buildv1.FindEnvironmentsRequest) (*buildv1.FindEnvironmentsResponse, error) {
	if digest.NewDigestFromEncoded(digest.SHA256, req.GetLockDigest()).Validate() != nil {
		return nil, fault.Invalid.Newf("The lock's digest is malformed")
	}
	found, err := s.store.FindEnvironments(ctx, req.GetLockDigest(), req.GetScope(), limits.EnvironmentBuilds)
	if err != nil {
		return nil, s.store.Fault("looking for the environment of a lock", err)
	}
	out := &buildv1.FindEnvironmentsResponse{}
	for _, r := range found {
		out.BuildIds = append(out.BuildIds, r.ID)
	}
	return out, nil
}

// noteLock lets FindEnvironments find a build of an earlier release, once its environment is requested again.
func (s *Service) noteLock(ctx context.Context, rec store.Record) error {
	if err := s.store.NoteLock(ctx, rec); err != nil {
		return s.store.Fault("noting the lock of a build", err)
	}
	return nil
}

// hasEnvironments reports whether the registry still has the artifacts with the environments of a build
// and of the builds whose images it lists. A registry may delete artifacts, which have no tag, and keep
// the image. Builds of earlier releases that have them become known by their locks.
func (s *Service) hasEnvironments(ctx context.Context, rec store.Record, repo upstream.Repository, access upstream.Access) (bool, error) {
	if store.HasEnvironment(rec.Request.GetRecipe()) {
		if rec.Environment == "" {
			return false, nil
		}
		if _, err := s.deps.Upstream.Resolve(ctx, repo, rec.Environment, access); err != nil {
			return false, err
		}
		if err := s.noteLock(ctx, rec); err != nil {
			return false, err
		}
	}
	for _, id := range rec.Request.GetPartIds() {
		part, err := s.read(ctx, id)
		if errors.Is(err, fault.NotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if there, err := s.hasEnvironments(ctx, part, repo, access); !there || err != nil {
			return false, err
		}
	}
	return true, nil
}
