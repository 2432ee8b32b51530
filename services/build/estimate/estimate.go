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
	"slipway.dev/services/internal/ratelimit"
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
	// RunningOf returns the limits of builds at a time that apply to a build; nil means that there
	// are none.
	RunningOf func(store.Load) []ratelimit.RunningLimit
}

// Of returns the estimated time from now until a build begins and until it ends; nil if
// unknown or already past. Errors are those of the store.
func (e Estimator) Of(ctx context.Context, r store.Record) (start, end *time.Duration, err error) {
	return estimation{Estimator: e, now: e.Now(), took: map[engine.Kind][]time.Duration{}}.of(ctx, r)
}

// estimation holds the data of one estimate.
type estimation struct {
	Estimator
	now time.Time
	// took holds recent durations of builds of a kind, the shortest first.
	took map[engine.Kind][]time.Duration
}

// of implements Estimator.Of.
func (e estimation) of(ctx context.Context, r store.Record) (start, end *time.Duration, err error) {
	switch {
	case !r.IsPending(), r.Request.GetUnsolved() != nil: // how long the solver takes is unknown
		return nil, nil, nil
	case !r.Started.IsZero():
		end, err = e.remaining(ctx, r.Kind(), r.Started)
		return nil, end, err
	case len(r.Request.GetPartIds()) > 0:
		end, err = e.ofParts(ctx, r)
		return nil, end, err
	}
	if start, err = e.start(ctx, r); err != nil || start == nil {
		return nil, nil, err
	}
	own, err := e.remaining(ctx, r.Kind(), e.now)
	if err != nil || own == nil {
		return nil, nil, err
	}
	return start, new(*start + *own), nil
}

// ofParts returns when a build that uses the images of other builds is likely to end: after
// the last of them, plus its own duration.
func (e estimation) ofParts(ctx context.Context, r store.Record) (*time.Duration, error) {
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
	own, err := e.remaining(ctx, r.Kind(), e.now)
	if err != nil || own == nil {
		return nil, err
	}
	return new(last + *own), nil
}

// start returns when a worker is likely to be free for a build and the limits of builds at a time
// of its user, workspace and organisation allow it: after the builds that run, and those that
// wait before it.
func (e estimation) start(ctx context.Context, r store.Record) (*time.Duration, error) {
	able := e.Workers.Candidates(r.Kind())
	if able.Slots == 0 {
		return nil, nil
	}
	loads, err := e.Store.Loads(ctx, r, maxAhead+1)
	if err != nil || len(loads) > maxAhead {
		return nil, err
	}
	own := e.runningOf(store.LoadOf(r))
	var before []build
	for _, l := range loads {
		b := build{isRunning: !l.Started.IsZero(), needsSlot: able.MayRun(l.Worker, l.Kind), limits: e.runningOf(l)}
		if !b.needsSlot && !b.sharesLimit(own) {
			continue
		}
		left, err := e.remaining(ctx, l.Kind, e.since(l))
		if err != nil || left == nil {
			return nil, err
		}
		b.left = *left
		before = append(before, b)
	}
	start := startAfter(before, build{needsSlot: true, limits: own}, able.Slots)
	return &start, nil
}

func (e estimation) runningOf(l store.Load) []ratelimit.RunningLimit {
	if e.RunningOf == nil {
		return nil
	}
	return e.RunningOf(l)
}

// remaining returns how much longer a build that began at since is likely to take: the median of
// the earlier builds of its kind that took at least as long as it has run; nil if no build
// did.
func (e estimation) remaining(ctx context.Context, c engine.Kind, since time.Time) (*time.Duration, error) {
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
func (e estimation) since(l store.Load) time.Time {
	if l.Started.IsZero() {
		return e.now
	}
	return l.Started
}
