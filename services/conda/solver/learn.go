package solver

import (
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// decay is the factor by which each conflict reduces the activity from earlier conflicts.
const decay = 0.95

// resolve learns from a conflict, and from the conflicts that follow, until none remains.
// It returns errNone if the request itself is unsatisfiable.
func (s *search) resolve(conflict []lit) error {
	for conflict != nil {
		if err := s.over(); err != nil {
			return err
		}
		clause, depth := s.analyze(conflict)
		if clause == nil {
			return errNone
		}
		if s.literals += len(clause); s.literals > limits.CondaLearnt {
			return fault.Timeout.New("The request is too hard to solve: ask for exact versions of some packages, or for fewer packages", nil)
		}
		s.backTo(depth)
		if conflict = s.learn(clause); conflict == nil {
			conflict = s.relate()
		}
		if conflict == nil {
			conflict = s.propagate()
		}
	}
	return nil
}

// relate restores the implications that backtracking removed too early: those of records
// that were chosen before their dependencies were encoded.
func (s *search) relate() (conflict []lit) {
	keep := s.late[:0]
	for _, v := range s.late {
		if s.value[v] != 1 {
			continue
		}
		keep = append(keep, v)
		for _, l := range s.implies[v] {
			if c := s.imply(l, reason{kind: byPair, other: yes(v)}); c != nil && conflict == nil {
				conflict = c
			}
		}
	}
	s.late = keep
	return conflict
}

// analyze finds the first unique implication point of a conflict and returns the clause to
// learn, or nil if the conflict does not depend on a decision. depth is the level to return
// to: there, only the first literal of the clause is unassigned.
func (s *search) analyze(conflict []lit) (clause []lit, depth int32) {
	level := int32(0)
	for _, l := range conflict {
		level = max(level, s.depthOf(l.variable()))
	}
	if level == 0 {
		return nil, 0
	}
	s.backTo(level)
	clear(s.seen)
	clear(s.displaced)
	a := analysis{search: s, level: level, clause: make([]lit, 1, 8)}
	a.meet(conflict)
	clause = a.walk()
	for _, l := range clause[1:] {
		depth = max(depth, s.depthOf(l.variable()))
	}
	s.bumpActivity(clause)
	return clause, depth
}

// An analysis is the state of one call of analyze.
type analysis struct {
	*search
	level  int32
	clause []lit
	// open is the number of literals of the current level that were met and not yet
	// replaced.
	open int
}

// meet adds the literals of a clause. All of them are false, except for the literal that
// the clause implied.
func (a *analysis) meet(clause []lit) {
	for _, l := range clause {
		v := l.variable()
		depth := a.depthOf(v)
		if a.seen[v] || depth == 0 {
			continue
		}
		a.seen[v] = true
		if depth < a.level {
			a.clause = append(a.clause, l)
			continue
		}
		a.open++
		if a.isBeside(v) {
			p := a.variables[v].pkg
			a.displaced[p] = append(a.displaced[p], v)
		}
	}
}

// walk goes back through the trail and replaces each literal of the level with the literals
// that implied it, until one remains.
func (a *analysis) walk() []lit {
	for at := len(a.trail) - 1; ; at-- {
		l := a.trail[at]
		v := l.variable()
		// The other records of a package became false right after the chosen one became
		// true.
		if p := a.variables[v].pkg; p != nil && !l.isNo() {
			for _, other := range a.displaced[p] {
				if a.open == 1 {
					a.clause[0] = yes(other)
					return a.clause
				}
				a.open--
				a.meet([]lit{no(v)})
			}
		}
		if !a.seen[v] || a.level != a.search.level[v] {
			continue
		}
		if a.open == 1 {
			a.clause[0] = l.not()
			return a.clause
		}
		a.open--
		a.meet(a.search.clause(l, a.reason[v]))
	}
}

// bumpActivity increases the activity of the packages of a clause.
func (s *search) bumpActivity(clause []lit) {
	for _, l := range clause {
		of := &s.variables[l.variable()]
		p := of.pkg
		switch {
		case of.want != nil:
			p = of.want.pkg
		case of.class != nil:
			p = of.class.pkg
		}
		if p != nil {
			p.activity++
			s.isActive = true
		}
	}
	for _, p := range s.byActivity {
		p.activity *= decay
	}
}
