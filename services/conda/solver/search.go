package solver

import (
	"context"
	"fmt"

	"slipway.dev/services/internal/conda"
)

// search is one attempt to solve one problem. It belongs to one goroutine.
type search struct {
	assignment

	// over says why the search has to end: whoever asked is gone, or the time is up. It
	// is asked at every step, none of which takes long.
	over    func() error
	library *library
	specs   []conda.MatchSpec
	// channelOf are the names that are asked for as channel::name.
	channelOf map[string]string

	// only, where set, are the dependencies that count, to see which ones matter.
	only map[edge]bool

	pkgs    map[string]*pkg
	wants   map[string]*want
	depends map[*conda.Record][]*want
	// byActivity are all packages, for their activity to decay.
	byActivity []*pkg
	isActive   bool
	// literals counts those of the learnt clauses.
	literals int

	// root is the variable of the request.
	root int32
	// implies is, by the variable of a record that was looked at, the gates and bars that
	// it makes true.
	implies map[int32][]lit
	// needs are the requirements, in the order in which they became known.
	needs []need
	// late are records that were looked at after they had been chosen: what they imply
	// stands later in the trail than it should, and is lost first.
	late []int32
	// seen marks the variables that analyze has met; beside collects the records that
	// are false since another of their package is chosen.
	seen   map[int32]bool
	beside map[*pkg][]int32
}

// need is what one record, or the request, requires.
type need struct {
	of    int32
	wants []*want
}

// edge is what all records of one name say of another: that they need it, or, where it
// bars, what it must be if it is there.
type edge struct {
	from, to string
	bars     bool
}

func newSearch(ctx context.Context, l *library, specs []conda.MatchSpec) *search {
	s := &search{
		over: func() error { return context.Cause(ctx) }, library: l, specs: specs,
		channelOf: map[string]string{}, pkgs: map[string]*pkg{}, wants: map[string]*want{},
		depends: map[*conda.Record][]*want{}, implies: map[int32][]lit{}, seen: map[int32]bool{}, beside: map[*pkg][]int32{},
	}
	for _, spec := range specs {
		if spec.Channel != "" {
			s.channelOf[spec.Name] = spec.Channel
		}
	}
	return s
}

// solve decides until nothing is open. errNone where that cannot be.
func (s *search) solve() error {
	s.root = s.newVar(variable{kind: ofRequest})
	s.set(yes(s.root), reason{})
	conflict, err := s.encodeRequest()
	if err != nil {
		return err
	}
	if conflict == nil {
		conflict = s.propagate()
	}
	if conflict != nil {
		return errNone
	}
	for {
		if err := s.descend(); err != nil {
			return err
		}
		fresh := s.unencoded()
		if len(fresh) == 0 {
			return nil
		}
		if err := s.encodeAll(fresh); err != nil {
			return err
		}
	}
}

// descend decides until every known requirement is met.
func (s *search) descend() error {
	for {
		if err := s.over(); err != nil {
			return err
		}
		w := s.next()
		if w == nil {
			return nil
		}
		record, ok := s.first(w)
		if !ok {
			return fmt.Errorf("solver: propagation left nothing for %s, and did not say so", w.spec)
		}
		s.decide(yes(record))
		if err := s.resolve(s.propagate()); err != nil {
			return err
		}
	}
}

// next is the requirement to decide for, nil when all are met: the first open one, where
// those of the request come first; one that has fewer candidates, and of whose package
// conflicts speak more, goes before.
func (s *search) next() *want {
	c := choice{search: s, fewest: -1}
	c.consider(s.needs[0].wants)
	if c.best == nil {
		for at := range s.live.all() {
			if c.consider(s.needs[at].wants); c.best != nil && !s.isActive {
				break
			}
		}
	}
	return c.best
}

// choice is the best requirement of those considered.
type choice struct {
	*search
	best *want
	// fewest is how many records are open for it; -1 is not counted.
	fewest int
}

func (c *choice) consider(wants []*want) {
	for _, w := range wants {
		switch {
		case w.pkg.chosen >= 0:
		case c.best == nil:
			c.best = w
			if !c.isActive {
				return
			}
		case w.pkg.activity > c.best.pkg.activity:
			if c.fewest < 0 {
				c.fewest = c.count(c.best)
			}
			if n := c.count(w); n < c.fewest {
				c.best, c.fewest = w, n
			}
		}
	}
}

// first is the best record that fits and is open: propagate leaves one.
func (s *search) first(w *want) (record int32, ok bool) {
	for _, i := range w.sorted {
		if s.value[w.pkg.first+i] == 0 {
			return w.pkg.first + i, true
		}
	}
	return 0, false
}

// count tells how many records fit and are open.
func (s *search) count(w *want) (n int) {
	for _, i := range w.matching {
		if s.value[w.pkg.first+i] == 0 {
			n++
		}
	}
	return n
}
