// Package estimate predicts when an unfinished build begins and ends, from the durations of
// earlier builds. It changes nothing.
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
	// Estimates use the durations of the newest builds: at most samples, none older than
	// sampleAge.
	sampleAge = 7 * 24 * time.Hour
	samples   = 50
	// maxAhead is the maximum number of builds that run or wait ahead of a build for which a
	// start is estimated.
	maxAhead = 1000
)

// Estimator estimates from the builds in the store.
type Estimator struct {
	Store   store.Store
	Workers *workers.Watch
	// Now returns the current time.
	Now func() time.Time
}

// Of returns the estimated time from now until a build begins and until it ends; nil if
// unknown or already past. Errors are those of the store.
func (e Estimator) Of(ctx context.Context, r store.Record) (start, end *time.Duration, err error) {
	return look{Estimator: e, now: e.Now(), took: map[engine.Kind][]time.Duration{}}.of(ctx, r)
}

// look holds the data of one estimate.
type look struct {
	Estimator
	now time.Time
	// took holds recent durations of builds of a kind, the shortest first.
	took map[engine.Kind][]time.Duration
}

// of implements Estimator.Of.
func (e look) of(ctx context.Context, r store.Record) (start, end *time.Duration, err error) {
	switch {
	case !r.IsPending(), r.Request.GetUnsolved() != nil: // how long the solver takes is unknown
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

// ofParts returns when a build that uses the images of other builds is likely to end: after
// the last of them, plus its own duration.
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
	if r.Request.GetRecipe().GetEngine() == engine.Index { // takes almost no time
		return &last, nil
	}
	own, err := e.left(ctx, r.Kind(), e.now)
	if err != nil || own == nil {
		return nil, err
	}
	return new(last + *own), nil
}

// start returns when a worker is likely to be free for a build: after the builds that run
// on suitable workers and those that wait before it.
func (e look) start(ctx context.Context, r store.Record) (*time.Duration, error) {
	able := e.Workers.Fit(r.Kind())
	if able.Slots == 0 {
		return nil, nil
	}
	loads, err := e.Store.Loads(ctx, r, maxAhead+1)
	if err != nil || len(loads) > maxAhead {
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

// left returns how much longer a build that began at since is likely to take: the median of
// the earlier builds of its kind that took at least as long as it has run; nil if no build
// did.
func (e look) left(ctx context.Context, c engine.Kind, since time.Time) (*time.Duration, error) {
	took, known := e.took[c]
	if !known {
		var err error
		if took, err = e.Store.Lengths(ctx, c, e.now.Add(-sampleAge), samples); err != nil {
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

// since returns when a load began to run. A waiting load counts as if it began now.
func (e look) since(l store.Load) time.Time {
	if l.Started.IsZero() {
		return e.now
	}
	return l.Started
}
