package build

import (
	"context"
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/bus/buildbus"
)

// CancelBuild ends a build, unless another is made from it. Whoever works on it is
// told, and stops. What it was to be made from goes on until that is cancelled.
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

// cancel ends a build, and tells whoever works on it.
func (s *Service) cancel(ctx context.Context, rec store.Record) error {
	if err := s.failAnyway(ctx, rec, reasonCancelled, "The build was cancelled"); err != nil {
		return s.store.Fault("cancelling a build", err)
	}
	// The worker believes who knows the hash of its ticket. No worker gets one from
	// now on, so this is the last.
	proof, err := s.store.Ticket(ctx, rec.ID)
	if err != nil {
		return s.store.Fault("reading who works on a build", err)
	}
	return s.deps.Bus.Publish(buildbus.Cancel(rec.ID), []byte(proof))
}

// isNeeded says whether a build under way is made from this one.
func (s *Service) isNeeded(ctx context.Context, id string) (bool, error) {
	open, err := s.store.MadeOfOthers(ctx)
	if err != nil {
		return false, s.store.Fault("looking for what a build is for", err)
	}
	return slices.ContainsFunc(open, func(r store.Record) bool { return slices.Contains(r.Request.GetPartIds(), id) }), nil
}
