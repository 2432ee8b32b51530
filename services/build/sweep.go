package build

import (
	"context"
	"errors"
	"time"

	"slipway.dev/services/build/store"
	"slipway.dev/services/build/workers"
	"slipway.dev/services/internal/fault"
)

// grace is how long after a build's deadline its worker may still report.
const grace = time.Minute

// sweep repairs lost state. It ends builds past their deadline, publishes lost jobs again,
// and deletes what is no longer needed.
func (s *Service) sweep(ctx context.Context) {
	out, err := s.store.Published(ctx)
	if err != nil {
		s.logDispatchError(ctx, "Builds that run cannot be read", err)
		return
	}
	now := s.deps.Now()
	for _, r := range out {
		switch {
		case !r.Started.IsZero() && now.After(r.Deadline().Add(grace)):
			err = s.failAnyway(ctx, r, reasonTimeout, "The build reached its time limit, and its worker does not respond")
		case now.Sub(r.Published) > time.Minute:
			err = s.republish(ctx, r)
		}
		if err != nil {
			s.logDispatchError(ctx, "A build cannot be repaired right now", err)
			return
		}
	}
	s.giveUpWaiting(ctx, now)
	s.requeueRevoked(ctx)
	s.forgetRevoked(ctx)
	s.clean(ctx, now)
}

// giveUpWaiting ends builds that no worker will take.
func (s *Service) giveUpWaiting(ctx context.Context, now time.Time) {
	waiting, err := s.store.Untaken(ctx, now.Add(-workers.Absence))
	for _, r := range waiting {
		if lacking := s.workers.MayWait(r.Kind(), r.Created); lacking != nil {
			e, _ := fault.As(lacking)
			err = errors.Join(err, s.fail(ctx, r, reasonInternal, e.Public))
		}
	}
	if err != nil {
		s.logDispatchError(ctx, "Builds without a suitable worker could not be ended", err)
	}
}

// republish queues a build again if its job has disappeared from the bus without a result,
// for example because NATS was set up again.
func (s *Service) republish(ctx context.Context, r store.Record) error {
	lost, err := s.queue.IsLost(ctx, r)
	if err != nil || !lost {
		return err
	}
	s.deps.Log.WarnContext(ctx, "A job was lost; it is queued again", "build_id", r.ID)
	if err := s.store.Unpublish(ctx, r); err != nil {
		return err
	}
	wake(s.queued)
	return nil
}

// clean deletes contexts after a week, builds after the retention, and keys of workers when
// everything that they signed has expired.
func (s *Service) clean(ctx context.Context, now time.Time) {
	err := s.store.RemoveContexts(ctx, now)
	if s.deps.Retention > 0 && err == nil {
		err = s.store.RemoveEnded(ctx, now.Add(-s.deps.Retention))
	}
	if _, seenAfter := s.keyTimes(); !seenAfter.IsZero() && err == nil {
		err = s.store.RemoveWorkerKeys(ctx, seenAfter)
	}
	if err == nil {
		err = s.sweepRebuilds(ctx, now)
	}
	if err != nil {
		s.logDispatchError(ctx, "Old builds were not removed", err)
	}
}
