package channel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Run refreshes the indexes in use until ctx ends, then waits for running fetches.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s.beginDue()
		}
	}
	s.mu.Lock()
	s.stop() // with mu, so that no fetch begins afterwards
	s.mu.Unlock()
	s.fetches.Wait()
	return nil
}

// isUsed reports whether a caller requested an entry recently. The caller holds mu.
func (s *Store) isUsed(e *entry) bool { return s.now().Sub(e.used) < limits.ChannelUnused }

// beginDue refreshes the entries that are used and due. Shared channels without an index are
// retried as well, so that their failure is reported for as long as it lasts.
func (s *Store) beginDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, e := range s.entries {
		if e.fetching == nil && !now.Before(e.due) && (e.index != nil || s.isShared(e)) && s.isUsed(e) {
			_ = s.begin(e, e.access.Client) // if the queue is full, it is tried again in a minute
		}
	}
}

// update fetches from a channel, or from its mirrors if it is unavailable, and records the
// result.
func (s *Store) update(ctx context.Context, e *entry) {
	s.mu.Lock()
	c, place := e.channel, e.place()
	f := &fetch{store: s, access: e.access, channel: c.URL, subdir: e.key.subdir, path: e.pending(), known: e.index, most: s.most(e)}
	checked := e.checked
	s.mu.Unlock()
	start := s.now()
	err := contended(ctx, s.try(ctx, f, c))
	var x *index.Index
	if err == nil {
		x, err = s.replace(e, place, f.known, checked)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errUnchanged) && !errors.Is(err, errAbsent) {
		s.log.Warn("A channel could not be read", "channel", c.Name, "subdir", e.key.subdir, "err", err)
	}
	if err == nil {
		s.prune()
	}
	s.metrics.refreshed(err, s.now().Sub(start))
	s.finish(e, f, x, err)
	if err == nil {
		s.log.Info("A channel was read", "channel", c.Name, "subdir", e.key.subdir, "records", x.Meta().Records, "skipped", x.Meta().Skipped, "from", x.Meta().Source, "ms", s.now().Sub(start).Milliseconds())
	}
}

// try fetches from the addresses of a channel in order until one succeeds.
func (s *Store) try(ctx context.Context, f *fetch, c Channel) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ChannelFetch)
	defer cancel()
	for _, f.base = range append([]string{c.URL}, c.Mirrors...) {
		err = f.safely(ctx)
		if err == nil || errors.Is(err, errUnchanged) || errors.Is(err, errAbsent) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// safely runs a fetch. It converts a panic to an error of this channel.
func (f *fetch) safely(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f.run(ctx)
}

// finish records the result of a fetch and wakes the callers that wait for it.
func (s *Store) finish(e *entry, f *fetch, x *index.Index, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	fresh := max(s.refresh, f.fresh)
	switch {
	case err == nil:
		s.pasts.drop(e.index)
		e.index, e.checked, e.due, e.failure, e.absent = x, now, now.Add(fresh), nil, false
	case errors.Is(err, errUnchanged):
		e.checked, e.due, e.failure = now, now.Add(fresh), nil
		err = os.Chtimes(e.path, now, now)
		if err != nil {
			s.log.Warn("The modification time of an index could not be set", "err", err)
		}
	case errors.Is(err, errAbsent) && e.index == nil:
		e.checked, e.due, e.failure, e.absent = now, now.Add(fresh), nil, true
	default:
		if e.key.scope != "" && errors.Is(err, fault.Denied) {
			// The login is no longer valid: the caller must not get the index any more.
			e.index = nil
			s.removeFiles(e.path)
		}
		e.failure, e.due = failure(err), now.Add(retryDelay(err))
	}
	close(e.fetching)
	e.fetching = nil
}

// failure returns the error for callers.
func failure(err error) error {
	switch _, ok := fault.As(err); {
	case ok:
		return err
	case errors.Is(err, errAbsent):
		return fault.Unavailable.New("The channel no longer has its list of packages", err)
	}
	return fault.Unavailable.New("The channel could not be read", err).After(limits.ChannelRetry)
}

// retryDelay returns how long a channel is not contacted after a failure.
func retryDelay(err error) time.Duration {
	if f, ok := fault.As(err); ok {
		return max(f.RetryAfter, limits.ChannelRetry)
	}
	return limits.ChannelRetry
}
