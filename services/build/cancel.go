package build

import (
	"context"
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/bus/buildbus"
)

// CancelBuild cancels a build, unless an unfinished build uses its image. The worker that
// runs it is notified. The builds whose images it uses continue until they are cancelled,
// too.
func (s *Service) CancelBuild(ctx context.Context, req *buildv1.CancelBuildRequest) (*buildv1.CancelBuildResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	if rec.IsPending() {
		needed, err := s.isNeeded(ctx, rec.ID)
		if needed || err != nil {
			return &buildv1.CancelBuildResponse{}, err
		}
		if err := s.cancel(ctx, rec); err != nil {
			return nil, err
		}
	}
	out := &buildv1.CancelBuildResponse{}
	for _, id := range rec.Request.GetPartIds() {
		part, err := s.read(ctx, id)
		if err != nil {
			return nil, err
		}
		if part.IsPending() {
			out.PartIds = append(out.PartIds, id)
		}
	}
	return out, nil
}

// cancel ends a build and notifies its worker.
func (s *Service) cancel(ctx context.Context, rec store.Record) error {
	if err := s.failAnyway(ctx, rec, reasonCancelled, "The build was cancelled"); err != nil {
		return s.store.Fault("cancelling a build", err)
	}
	// The worker accepts a cancellation with the hash of its ticket. No worker gets a new
	// ticket from now on, so this is the last one.
	proof, err := s.store.Ticket(ctx, rec.ID)
	if err != nil {
		return s.store.Fault("reading the ticket of a build", err)
	}
	return s.deps.Bus.Publish(buildbus.Cancel(rec.ID), []byte(proof))
}

// isNeeded reports whether an unfinished build uses this build's image.
func (s *Service) isNeeded(ctx context.Context, id string) (bool, error) {
	open, err := s.store.Dependents(ctx)
	if err != nil {
		return false, s.store.Fault("looking up the builds that use an image", err)
	}
	return slices.ContainsFunc(open, func(r store.Record) bool { return slices.Contains(r.Request.GetPartIds(), id) }), nil
}
