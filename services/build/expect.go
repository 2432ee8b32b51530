package build

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
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
func (s *Service) expect(ctx context.Context, r record, out *buildv1.AwaitBuildResponse) error {
	e := estimate{s: s, now: s.deps.Now(), took: map[capability][]time.Duration{}}
	start, end, err := e.of(ctx, r)
	if err != nil {
		return s.deps.DB.Fault("estimating a build", err)
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
	took map[capability][]time.Duration
}

// of is when a build is likely to begin and to end, from now; nil is not known.
func (e estimate) of(ctx context.Context, r record) (start, end *time.Duration, err error) {
	switch {
	case !r.isPending():
		return nil, nil, nil
	case !r.started.IsZero():
		end, err = e.left(ctx, capabilityOf(r), r.started)
		return nil, end, err
	case len(r.request.GetPartIds()) > 0:
		end, err = e.ofParts(ctx, r)
		return nil, end, err
	}
	if start, err = e.start(ctx, r); err != nil || start == nil {
		return nil, nil, err
	}
	own, err := e.left(ctx, capabilityOf(r), e.now)
	if err != nil || own == nil {
		return nil, nil, err
	}
	return start, new(*start + *own), nil
}

// ofParts is when a build is likely to have ended that is made from others: after the
// last of them, and what it takes itself.
func (e estimate) ofParts(ctx context.Context, r record) (*time.Duration, error) {
	var last time.Duration
	for _, id := range r.request.GetPartIds() {
		part, err := e.s.store.get(ctx, id)
		if err != nil {
			return nil, err
		}
		if !part.isPending() {
			continue
		}
		_, end, err := e.of(ctx, part)
		if err != nil || end == nil {
			return nil, err
		}
		last = max(last, *end)
	}
	if r.request.GetRecipe().GetEngine() == engineIndex { // no work to speak of
		return &last, nil
	}
	own, err := e.left(ctx, capabilityOf(r), e.now)
	if err != nil || own == nil {
		return nil, err
	}
	return new(last + *own), nil
}

// start is when a worker is likely to be free for a build: what runs on the workers
// that could make it ends, and what waits before it is made, each in its time.
func (e estimate) start(ctx context.Context, r record) (*time.Duration, error) {
	able := e.s.workers.fit(capabilityOf(r))
	if able.slots == 0 {
		return nil, nil
	}
	loads, err := e.s.store.loads(ctx, r, farthest+1)
	if err != nil || len(loads) > farthest {
		return nil, err
	}
	free := make([]time.Duration, min(able.slots, len(loads)+1))
	for _, l := range loads {
		if !able.carries(l) {
			continue
		}
		left, err := e.left(ctx, l.kind, l.since(e.now))
		if err != nil || left == nil {
			return nil, err
		}
		free[slices.Index(free, slices.Min(free))] += *left
	}
	return new(slices.Min(free)), nil
}

// left is how long a build of a kind is likely to go on that runs since a moment: the
// median of those that took as long already; nil where there is none.
func (e estimate) left(ctx context.Context, c capability, since time.Time) (*time.Duration, error) {
	took, known := e.took[c]
	if !known {
		var err error
		if took, err = e.s.store.lengths(ctx, c, e.now.Add(-lately), samples); err != nil {
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

// load is a build that runs, or waits for a worker.
type load struct {
	kind capability
	// worker has it since started; "" and zero while it waits.
	worker  string
	started time.Time
}

func (l load) since(now time.Time) time.Time {
	if l.started.IsZero() {
		return now
	}
	return l.started
}

// fitting is the live workers that can make a kind of builds.
type fitting struct {
	names map[string]bool
	makes map[capability]bool
	slots int
}

// carries says whether a build takes a slot of these workers, or may.
func (f fitting) carries(l load) bool {
	if l.worker != "" {
		return f.names[l.worker]
	}
	return f.makes[l.kind]
}

// fit finds the live workers that can make a kind of builds, and what else they make.
func (w *workers) fit(c capability) fitting {
	f := fitting{names: map[string]bool{}, makes: map[capability]bool{}}
	for _, s := range w.live() {
		can := map[capability]bool{}
		for _, k := range s.what.GetCapabilities() {
			can[capability{k.GetEngine(), k.GetArchitecture()}] = true
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
