package solver

import (
	"context"
	"fmt"

	"slipway.dev/services/conda/spec"
)

// A search is one attempt to solve one problem. It must be used by one goroutine only.
type search struct {
	assignment

	// over returns an error when the search must end because of cancellation or the time
	// limit. It is called at every step, and steps are short.
	over    func() error
	library *library
	specs   []spec.MatchSpec
	// held lists the names for which only the installed record may be chosen.
	held []string
	// channelOf maps the names requested as channel::name to their channel.
	channelOf map[string]string

	// only, if not nil, restricts the dependencies that count, to find which ones matter.
	only map[edge]bool

	pkgs    map[string]*pkg
	wants   map[string]*want
	depends map[*spec.Record][]*want
	// byActivity lists all packages, whose activities decay together.
	byActivity []*pkg
	isActive   bool
	// literals is the number of literals in learnt clauses.
	literals int

	// root is the variable of the request.
	root int32
	// implies maps the variable of an encoded record to the gates and bars that it makes
	// true.
	implies map[int32][]lit
	// needs holds the requirements, in the order in which they were encoded.
	needs []need
	// late lists records that were encoded after they had been chosen. Their implications
	// come later in the trail than the record, so backtracking removes them first (see
	// relate).
	late []int32
	// seen marks the variables that analyze has met. displaced collects the records that are
	// false because another record of their package is chosen.
	seen      map[int32]bool
	displaced map[*pkg][]int32
}

// A need is the list of requirements of one record, or of the request.
type need struct {
	of    int32
	wants []*want
}

// An edge is a dependency between two package names, or a constraint if bars is set.
type edge struct {
	from, to string
	bars     bool
}

func newSearch(ctx context.Context, l *library, specs []spec.MatchSpec) *search {
	s := &search{
		over: func() error { return context.Cause(ctx) }, library: l, specs: specs,
		channelOf: map[string]string{}, pkgs: map[string]*pkg{}, wants: map[string]*want{},
		depends: map[*spec.Record][]*want{}, implies: map[int32][]lit{}, seen: map[int32]bool{}, displaced: map[*pkg][]int32{},
	}
	for _, wanted := range specs {
		if wanted.Channel != "" {
			s.channelOf[wanted.Name] = wanted.Channel
		}
	}
	return s
}

// solve assigns variables until all requirements are met. It returns errNone if the problem
// is unsatisfiable.
func (s *search) solve() error {
	s.root = s.newVar(variable{kind: ofRequest})
	s.set(yes(s.root), reason{})
	if err := s.setMachine(); err != nil {
		return err
	}
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

// setMachine chooses the virtual packages. The machine has them even if no package depends
// on them, so that they must also match packages that only constrain them.
func (s *search) setMachine() error {
	for i := range s.library.virtual {
		p, err := s.pkg(s.library.virtual[i].Name)
		if err != nil {
			return err
		}
		if len(p.records) > 0 && p.chosen < 0 {
			s.set(yes(p.first), reason{})
		}
	}
	return nil
}

// descend decides until every encoded requirement is met.
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

// next returns the requirement to decide next, or nil if all are met. Requirements of the
// request come first, then those with fewer candidates and with a more active package.
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

// A choice is the best requirement among those considered.
type choice struct {
	*search
	best *want
	// fewest is the number of its unassigned records; -1 if not counted.
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

// first returns the best unassigned record that matches. propagate guarantees that one
// exists.
func (s *search) first(w *want) (record int32, ok bool) {
	for _, i := range w.sorted {
		if s.value[w.pkg.first+i] == 0 {
			return w.pkg.first + i, true
		}
	}
	return 0, false
}

// count returns the number of unassigned records that match.
func (s *search) count(w *want) (n int) {
	for _, i := range w.matching {
		if s.value[w.pkg.first+i] == 0 {
			n++
		}
	}
	return n
}
