// Package estimate tells when a build that has not ended is likely to begin and to end, by
// what others took. It is asked, and changes nothing.
package estimate

import (
	"context"
	"slices"
	"time"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/build/workers"
)

const (
	// lately is how far back builds say how long the next will take, by the newest
	// samples of them.
	lately  = 7 * 24 * time.Hour
	samples = 50
	// farthest is how many builds may run or wait before one whose start is estimated.
	farthest = 1000
)

// Estimator is what estimates are made from.
type Estimator struct {
	Store   store.Store
	Workers *workers.Watch
	// Now is the clock.
	Now func() time.Time
}

// Of is when a build is likely to begin and to end, from now; nil is not known, or past.
// An error is one of the store's.
func (e Estimator) Of(ctx context.Context, r store.Record) (start, end *time.Duration, err error) {
	return look{Estimator: e, now: e.Now(), took: map[engine.Kind][]time.Duration{}}.of(ctx, r)
}

// look is what one look at the queue found out.
type look struct {
	Estimator
	now time.Time
	// took is how long builds of a kind took lately, the shortest first.
	took map[engine.Kind][]time.Duration
}

// of is Estimator.Of.
func (e look) of(ctx context.Context, r store.Record) (start, end *time.Duration, err error) {
	switch {
	case !r.IsPending():
		return nil, nil, nil
	case !r.Started.IsZero():
		end, err = e.left(ctx, r.Kind(), r.Started)
		return nil, end, err
	case len(r.Request.GetPartIds()) > 0:
		end, err = e.ofParts(ctx, r)
		return nil, end, err
	}
	if start, err = e.start(ctx, r); err != nil || start == nil {
		return nil, nil, err
	}
	own, err := e.left(ctx, r.Kind(), e.now)
	if err != nil || own == nil {
		return nil, nil, err
	}
	return start, new(*start + *own), nil
}

// ofParts is when a build is likely to have ended that is made from others: after the
// last of them, and what it takes itself.
func (e look) ofParts(ctx context.Context, r store.Record) (*time.Duration, error) {
	var last time.Duration
	for _, id := range r.Request.GetPartIds() {
		part, err := e.Store.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if !part.IsPending() {
			continue
		}
		_, end, err := e.of(ctx, part)
		if err != nil || end == nil {
			return nil, err
		}
		last = max(last, *end)
	}
	if r.Request.GetRecipe().GetEngine() == engine.Index { // no work to speak of
		return &last, nil
	}
	own, err := e.left(ctx, r.Kind(), e.now)
	if err != nil || own == nil {
		return nil, err
	}
	return new(last + *own), nil
}

// start is when a worker is likely to be free for a build: what runs on the workers
// that could make it ends, and what waits before it is made, each in its time.
func (e look) start(ctx context.Context, r store.Record) (*time.Duration, error) {
	able := e.Workers.Fit(r.Kind())
	if able.Slots == 0 {
		return nil, nil
	}
	loads, err := e.Store.Loads(ctx, r, farthest+1)
	if err != nil || len(loads) > farthest {
		return nil, err
	}
	free := make([]time.Duration, min(able.Slots, len(loads)+1))
	for _, l := range loads {
		if !able.Carries(l.Worker, l.Kind) {
			continue
		}
		left, err := e.left(ctx, l.Kind, e.since(l))
		if err != nil || left == nil {
			return nil, err
		}
		free[slices.Index(free, slices.Min(free))] += *left
	}
	return new(slices.Min(free)), nil
}

// left is how long a build of a kind is likely to go on that runs since a moment: the
// median of those that took as long already; nil where there is none.
func (e look) left(ctx context.Context, c engine.Kind, since time.Time) (*time.Duration, error) {
	took, known := e.took[c]
	if !known {
		var err error
		if took, err = e.Store.Lengths(ctx, c, e.now.Add(-lately), samples); err != nil {
			return nil, err
		}
		slices.Sort(took)
		e.took[c] = took
	}
	runs := max(0, e.now.Sub(since))
	from, _ := slices.BinarySearch(took, runs)
	if took = took[from:]; len(took) == 0 {
		return nil, nil
	}
	return new(took[len(took)/2] - runs), nil
}

// since is when what runs of a load began; what waits is as if it began now.
func (e look) since(l store.Load) time.Time {
	if l.Started.IsZero() {
		return e.now
	}
	return l.Started
}
