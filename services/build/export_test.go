package build

import (
	"context"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
)

// Sweep runs the periodic part of Run.
func (s *Service) Sweep(ctx context.Context) { s.sweep(ctx) }

// IsSelected reports whether a build of packages is built again.
func IsSelected(ctx context.Context, s *Service, id string) (bool, error) {
	return s.isSelected(ctx, store.Record{ID: id, Request: &buildv1.SubmitBuildRequest{Recipe: &buildv1.Recipe{Engine: "conda"}}})
}
