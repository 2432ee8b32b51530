package build

import (
	"context"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// CancelBuild ends a build. Whoever works on it is told, and stops.
func (s *Service) CancelBuild(ctx context.Context, req *buildv1.CancelBuildRequest) (*buildv1.CancelBuildResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	if !rec.isPending() {
		return &buildv1.CancelBuildResponse{}, nil
	}
	if err := s.fail(ctx, rec, reasonCancelled, "The build was cancelled"); err != nil {
		return nil, s.deps.DB.Fault("cancelling a build", err)
	}
	return &buildv1.CancelBuildResponse{}, s.deps.Bus.Publish(subjectCancel+rec.id, nil)
}
