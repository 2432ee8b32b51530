package solver

import "slices"

// A lit is a literal: the variable lit/2, negated if lit is odd.
type lit int32

func yes(v int32) lit         { return lit(v << 1) }
func no(v int32) lit          { return lit(v<<1 | 1) }
func (l lit) variable() int32 { return int32(l >> 1) }
func (l lit) not() lit        { return l ^ 1 }
func (l lit) isNo() bool      { return l&1 == 1 }

// A variable describes what a variable of the problem represents.
type variable struct {
	kind kind
	// pkg is set for a record, class for a class, and want for a gate or a bar.
	pkg   *pkg
	want  *want
	class *class
}

type kind uint8

const (
	ofRequest kind = iota
	ofRecord
	ofClass
	ofGate
	ofBar
)

// A reason is the clause that made a literal true. kind determines where the clause is
// stored.
type reason struct {
	kind reasonKind
	// other is the literal that implied this one, for a clause of two literals.
	other lit
	// clause is the index of a learnt clause. want is the requirement that the clause
	// belongs to.
	clause int32
	want   *want
}

type reasonKind uint8

const (
	decided reasonKind = iota
	byPair
	byWant
	byLearnt
)

// An assignment holds the decisions and the literals that they imply.
type assignment struct {
	variables []variable
	// value is 1 for true, -1 for false and 0 for unassigned. If a record is chosen, the
	// other records of its package remain unassigned here and count as false (see of).
	value  []int8
	level  []int32
	reason []reason
	trail  []lit
	// need is the index into search.needs by variable, or -1. live is the set of those
	// indexes whose records are chosen.
	need []int32
	live set
	// decisions holds the length of the trail before each decision.
	decisions []int
	// done is the length of the part of the trail that propagate has processed.
	done int

	learnt [][]lit
	// watches holds, by literal, the learnt clauses to check when that literal becomes
	// false.
	watches [][]int32
}

func (a *assignment) nextVar() int32 { return int32(len(a.variables)) }

func (a *assignment) newVar(v variable) int32 {
	id := a.nextVar()
	a.variables = append(a.variables, v)
	a.value = append(a.value, 0)
	a.level = append(a.level, 0)
	a.reason = append(a.reason, reason{})
	a.need = append(a.need, -1)
	a.watches = append(a.watches, nil, nil)
	return id
}

func (a *assignment) depth() int32 { return int32(len(a.decisions)) }

// of returns the value of a variable. If a record is chosen, the other records of its
// package count as false.
func (a *assignment) of(v int32) int8 {
	if x := a.value[v]; x != 0 {
		return x
	}
	if p := a.variables[v].pkg; p != nil && p.chosen >= 0 {
		return -1
	}
	return 0
}

// lit returns the value of a literal.
func (a *assignment) lit(l lit) int8 {
	if l.isNo() {
		return -a.of(l.variable())
	}
	return a.of(l.variable())
}

// isBeside reports whether a variable is false only because another record of its package
// is chosen.
func (a *assignment) isBeside(v int32) bool {
	p := a.variables[v].pkg
	return a.value[v] == 0 && p != nil && p.chosen >= 0
}

// depthOf returns the decision level at which a variable was assigned.
func (a *assignment) depthOf(v int32) int32 {
	if a.isBeside(v) {
		p := a.variables[v].pkg
		return a.level[p.first+p.chosen]
	}
	return a.level[v]
}

func (a *assignment) set(l lit, why reason) {
	v := l.variable()
	a.value[v] = 1
	if l.isNo() {
		a.value[v] = -1
	} else if p := a.variables[v].pkg; p != nil {
		p.chosen = v - p.first
		a.live.put(a.need[v], true)
	}
	a.level[v], a.reason[v] = a.depth(), why
	a.trail = append(a.trail, l)
}

// decide starts a decision level with l.
func (a *assignment) decide(l lit) {
	a.decisions = append(a.decisions, len(a.trail))
	a.set(l, reason{})
}

// backTo undoes all decision levels above depth.
func (a *assignment) backTo(depth int32) {
	if a.depth() <= depth {
		return
	}
	keep := a.decisions[depth]
	for _, l := range a.trail[keep:] {
		v := l.variable()
		a.value[v] = 0
		if p := a.variables[v].pkg; p != nil && p.chosen == v-p.first {
			p.chosen = -1
			a.live.put(a.need[v], false)
		}
	}
	a.trail, a.decisions, a.done = a.trail[:keep], a.decisions[:depth], min(a.done, keep)
}

// imply makes l true for a reason. If l is already false, imply returns the reason's clause
// as the conflict.
func (a *assignment) imply(l lit, why reason) (conflict []lit) {
	switch a.lit(l) {
	case 1:
		return nil
	case -1:
		return a.clause(l, why)
	}
	a.set(l, why)
	return nil
}

// clause returns the clause that made l true, or that requires it.
func (a *assignment) clause(l lit, why reason) []lit {
	switch why.kind {
	case byPair:
		return []lit{l, why.other.not()}
	case byWant:
		return why.want.clause()
	case byLearnt:
		return a.learnt[why.clause]
	default:
		return []lit{l}
	}
}

// clause returns the clause: the gate is false, or one of the matching records is true.
func (w *want) clause() []lit {
	out := make([]lit, 1, len(w.matching)+1)
	out[0] = no(w.gate)
	for _, i := range w.matching {
		out = append(out, yes(w.pkg.first+i))
	}
	return out
}

// learn stores a clause whose first literal is unassigned and whose other literals are
// false, and makes the first literal true.
func (a *assignment) learn(clause []lit) (conflict []lit) {
	if len(clause) == 1 {
		return a.imply(clause[0], reason{kind: byLearnt, clause: a.keep(clause)})
	}
	newest := 1
	for i := 2; i < len(clause); i++ {
		if a.depthOf(clause[i].variable()) > a.depthOf(clause[newest].variable()) {
			newest = i
		}
	}
	clause[1], clause[newest] = clause[newest], clause[1]
	id := a.keep(clause)
	a.watch(clause[0], id)
	a.watch(clause[1], id)
	return a.imply(clause[0], reason{kind: byLearnt, clause: id})
}

func (a *assignment) keep(clause []lit) int32 {
	a.learnt = append(a.learnt, clause)
	return int32(len(a.learnt) - 1)
}

func (a *assignment) watch(l lit, clause int32) {
	if p := a.variables[l.variable()].pkg; p != nil && !l.isNo() && len(a.watches[l]) == 0 {
		if i := l.variable() - p.first; !slices.Contains(p.watched, i) {
			p.watched = append(p.watched, i)
		}
	}
	a.watches[l] = append(a.watches[l], clause)
}
