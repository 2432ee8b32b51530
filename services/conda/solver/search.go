package solver

import (
	"context"

	"slipway.dev/services/internal/conda"
)

// search is one attempt to solve one problem. It belongs to one goroutine.
type search struct {
	assignment

	// over says why the search has to end: whoever asked is gone, or the time is up.
	over  func() error
	steps int

	problem *Problem
	// virtual are the machine's facts as records.
	virtual []conda.Record
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

func newSearch(ctx context.Context, p *Problem) *search {
	s := &search{
		over: func() error { return context.Cause(ctx) }, problem: p,
		channelOf: map[string]string{}, pkgs: map[string]*pkg{}, wants: map[string]*want{},
		depends: map[*conda.Record][]*want{}, implies: map[int32][]lit{}, seen: map[int32]bool{}, beside: map[*pkg][]int32{},
	}
	for _, v := range p.Virtual {
		s.virtual = append(s.virtual, v.Record())
	}
	for _, spec := range p.Specs {
		if spec.Channel != "" {
			s.channelOf[spec.Name] = spec.Channel
		}
	}
	return s
}

// pauseEvery is how many steps are made between looks at the clock; one takes less than
// a millisecond.
const pauseEvery = 16

// pause is called once a step, and tells when the caller, or the budget, wants no more.
func (s *search) pause() error {
	if s.steps++; s.steps%pauseEvery != 0 {
		return nil
	}
	return s.over()
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
		if err := s.pause(); err != nil {
			return err
		}
		next, open := s.next()
		if !open {
			return nil
		}
		s.decide(yes(next))
		if err := s.resolve(s.propagate()); err != nil {
			return err
		}
	}
}

// next is the record to decide for: the best one of the first open requirement, where
// those of the request come first; a requirement that has fewer candidates, and of
// whose package conflicts speak more, goes before.
func (s *search) next() (record int32, open bool) {
	var best *want
	fewest := -1 // not counted
	for at := range s.needs {
		if at == 1 && best != nil {
			break
		}
		if s.value[s.needs[at].of] != 1 {
			continue
		}
		for _, w := range s.needs[at].wants {
			switch {
			case w.pkg.chosen >= 0:
			case best == nil:
				best = w
			case w.pkg.activity > best.pkg.activity:
				if fewest < 0 {
					fewest = s.count(best)
				}
				if n := s.count(w); n < fewest {
					best, fewest = w, n
				}
			}
			if best != nil && !s.isActive {
				return s.first(best), true
			}
		}
	}
	if best == nil {
		return 0, false
	}
	return s.first(best), true
}

// first is the best record that fits and is open: propagate leaves one.
func (s *search) first(w *want) int32 {
	for _, i := range w.sorted {
		if s.value[w.pkg.first+i] == 0 {
			return w.pkg.first + i
		}
	}
	panic("solver: a requirement without candidates was not noticed: " + w.spec.String())
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
