package build

import (
	"context"
	"errors"
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// formatEnvironment is the format of recipes for an environment that is mounted and has no image.
const formatEnvironment = "environment"

// hasEnvironment reports whether the result of a recipe is, or is stored with, the artifact with which its
// environment is mounted.
func hasEnvironment(r *buildv1.Recipe) bool {
	return r.GetMount() || r.GetFormat() == formatEnvironment
}

// isMounted reports whether an image, or one that it lists, is stored with the artifact with which its
// environment is mounted.
func isMounted(req *buildv1.SubmitBuildRequest) bool {
	return hasEnvironment(req.GetRecipe()) || slices.ContainsFunc(req.GetParts(), isMounted)
}

// hasEnvironments reports whether the registry still has the artifacts with the environments of a build
// and of the builds whose images it lists. A registry may delete artifacts, which have no tag, and keep
// the image.
func (s *Service) hasEnvironments(ctx context.Context, rec store.Record, repo upstream.Repository, access upstream.Access) (bool, error) {
	if hasEnvironment(rec.Request.GetRecipe()) {
		if rec.Environment == "" {
			return false, nil
		}
		if _, err := s.deps.Upstream.Resolve(ctx, repo, rec.Environment, access); err != nil {
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
