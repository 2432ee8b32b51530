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

// sweep repairs what was lost: builds past their deadline are ended, jobs that
// the bus lost are published again, and what nobody needs any more is removed.
func (s *Service) sweep(ctx context.Context) {
	out, err := s.store.Published(ctx)
	if err != nil {
		s.troubled(ctx, "Builds that run cannot be read", err)
		return
	}
	now := s.deps.Now()
	for _, r := range out {
		switch {
		case !r.Started.IsZero() && now.After(r.Deadline().Add(grace)):
			err = s.failAnyway(ctx, r, reasonTimeout, "The build ran out of time, and its worker is silent")
		case now.Sub(r.Published) > time.Minute:
			err = s.republish(ctx, r)
		}
		if err != nil {
			s.troubled(ctx, "A build cannot be repaired right now", err)
			return
		}
	}
	s.giveUpWaiting(ctx, now)
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
		s.troubled(ctx, "Builds that nobody can make were not ended", err)
	}
}

// republish lets a build wait again when its job is gone from the bus, though
// nobody has finished it: NATS was set up anew, say.
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

// clean removes contexts after a week, and builds after the retention.
func (s *Service) clean(ctx context.Context, now time.Time) {
	err := s.store.RemoveContexts(ctx, now)
	if s.deps.Retention > 0 && err == nil {
		err = s.store.RemoveEnded(ctx, now.Add(-s.deps.Retention))
	}
	if err != nil {
		s.troubled(ctx, "Old builds were not removed", err)
	}
}
