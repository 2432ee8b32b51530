package build

import (
	"context"

	"slipway.dev/services/build/store"
)

// dispatch puts builds that wait on the bus, as many as the workers can take,
// in turn between their owners.
func (s *Service) dispatch(ctx context.Context) {
	s.closeIndexes(ctx)
	waiting, err := s.store.FirstOfEach(ctx)
	if err == nil {
		waiting, err = s.ready(ctx, waiting)
	}
	var next []store.Record
	if err == nil && len(waiting) > 0 {
		next, err = s.queue.Next(ctx, waiting)
	}
	if err != nil {
		s.troubled(ctx, "The queue cannot be read", err)
		return
	}
	if len(waiting) == 0 {
		return
	}
	if err := s.queue.Publish(ctx, next); err != nil {
		s.troubled(ctx, "NATS does not take builds right now; they wait", err)
	}
}

func (s *Service) troubled(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "Builds are held up", "what", what, "err", err)
	}
}
