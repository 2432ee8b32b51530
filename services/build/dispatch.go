package build

import (
	"context"

	"slipway.dev/services/build/store"
)

// dispatch publishes waiting builds on the bus, as many as the workers can take, in an
// order that is fair to their owners.
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
	if err == nil && len(waiting) > 0 {
		err = s.queue.Publish(ctx, next)
	}
	switch {
	case err != nil:
		s.dispatching.Failed(ctx, err)
	case len(waiting) > 0:
		s.dispatching.Succeeded(ctx)
	}
}

func (s *Service) logDispatchError(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "Builds cannot be dispatched", "what", what, "err", err)
	}
}
