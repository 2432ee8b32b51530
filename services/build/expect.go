package build

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
)

const (
	// lately is how far back builds say how long the next will take, by the newest
	// samples of them.
	lately  = 7 * 24 * time.Hour
	samples = 50
	// farthest is how many builds may run or wait before one whose start is estimated.
	farthest = 1000
)

// expect fills in when a build that has not ended is likely to begin and to end, by
// what others took; nothing where that is not known.
func (s *Service) expect(ctx context.Context, r store.Record, out *buildv1.AwaitBuildResponse) error {
	e := estimate{s: s, now: s.deps.Now(), took: map[engine.Kind][]time.Duration{}}
	start, end, err := e.of(ctx, r)
	if err != nil {
		return s.store.Fault("estimating a build", err)
	}
	if end != nil {
		out.ExpectedEnd = proto.Float64(end.Seconds())
	}
	if start != nil && end != nil {
		out.ExpectedStart = proto.Float64(start.Seconds())
	}
	return nil
}

// estimate is what one look at the queue found out.
type estimate struct {
	s   *Service
	now time.Time
	// took is how long builds of a kind took lately, the shortest first.
	took map[engine.Kind][]time.Duration
}

// of is when a build is likely to begin and to end, from now; nil is not known.
func (e estimate) of(ctx context.Context, r store.Record) (start, end *time.Duration, err error) {
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
func (e estimate) ofParts(ctx context.Context, r store.Record) (*time.Duration, error) {
	var last time.Duration
	for _, id := range r.Request.GetPartIds() {
		part, err := e.s.store.Get(ctx, id)
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
func (e estimate) start(ctx context.Context, r store.Record) (*time.Duration, error) {
	able := e.s.workers.fit(r.Kind())
	if able.slots == 0 {
		return nil, nil
	}
	loads, err := e.s.store.Loads(ctx, r, farthest+1)
	if err != nil || len(loads) > farthest {
		return nil, err
	}
	free := make([]time.Duration, min(able.slots, len(loads)+1))
	for _, l := range loads {
		if !able.carries(l) {
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
func (e estimate) left(ctx context.Context, c engine.Kind, since time.Time) (*time.Duration, error) {
	took, known := e.took[c]
	if !known {
		var err error
		if took, err = e.s.store.Lengths(ctx, c, e.now.Add(-lately), samples); err != nil {
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
func (e estimate) since(l store.Load) time.Time {
	if l.Started.IsZero() {
		return e.now
	}
	return l.Started
}

// fitting is the live workers that can make a kind of builds.
type fitting struct {
	names map[string]bool
	makes map[engine.Kind]bool
	slots int
}

// carries says whether a build takes a slot of these workers, or may.
func (f fitting) carries(l store.Load) bool {
	if l.Worker != "" {
		return f.names[l.Worker]
	}
	return f.makes[l.Kind]
}

// fit finds the live workers that can make a kind of builds, and what else they make.
func (w *workers) fit(c engine.Kind) fitting {
	f := fitting{names: map[string]bool{}, makes: map[engine.Kind]bool{}}
	for _, s := range w.live() {
		can := map[engine.Kind]bool{}
		for _, k := range s.what.GetCapabilities() {
			can[engine.Kind{Engine: k.GetEngine(), Architecture: k.GetArchitecture()}] = true
		}
		if !can[c] {
			continue
		}
		f.names[s.what.GetWorker()] = true
		f.slots += int(s.what.GetSlots())
		maps.Copy(f.makes, can)
	}
	return f
}
