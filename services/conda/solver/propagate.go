package solver

// propagate assigns all literals that follow from the true ones. A conflict is a clause
// whose literals are all false.
func (s *search) propagate() (conflict []lit) {
	for s.done < len(s.trail) {
		l := s.trail[s.done]
		s.done++
		v := l.variable()
		switch of := &s.variables[v]; {
		case of.kind == ofRecord && !l.isNo():
			conflict = s.chosen(of.pkg, v)
		case of.kind == ofRecord:
			conflict = s.excluded(of.pkg, v)
		case of.kind == ofClass && !l.isNo():
			conflict = s.implyFrom(v)
		case of.kind == ofClass:
			conflict = s.excludeAll(of.class)
		case of.kind == ofGate && !l.isNo():
			conflict = s.narrow(of.want)
		case of.kind == ofGate:
			conflict = s.implyAll(of.want.needs, l)
		case of.kind == ofBar && !l.isNo():
			conflict = s.excludeMismatches(of.want, l)
		case of.kind == ofBar:
			conflict = s.implyAll(of.want.bars, l)
		}
		if conflict == nil {
			conflict = s.checkWatches(l.not())
		}
		if conflict != nil {
			return conflict
		}
	}
	return nil
}

// implyFrom makes the literals true that a record or a class implies.
func (s *search) implyFrom(v int32) (conflict []lit) {
	for _, l := range s.implies[v] {
		if c := s.imply(l, reason{kind: byPair, other: yes(v)}); c != nil {
			return c
		}
	}
	return nil
}

// chosen propagates a record that became true: its dependencies and constraints hold, and
// wants that it does not match are false.
func (s *search) chosen(p *pkg, v int32) (conflict []lit) {
	if c := s.implyFrom(v); c != nil {
		return c
	}
	if c := s.unfit(p, v); c != nil {
		return c
	}
	for k := 0; k < len(p.watched); k++ {
		other := p.first + p.watched[k]
		if other == v || s.value[other] != 0 {
			continue
		}
		if c := s.checkWatches(yes(other)); c != nil {
			return c
		}
	}
	return nil
}

// unfit makes wants false that the chosen record does not match.
func (s *search) unfit(p *pkg, v int32) (conflict []lit) {
	because := reason{kind: byPair, other: yes(v)}
	i := v - p.first
	for _, w := range p.wants {
		if w.fits[i] {
			continue
		}
		if w.bar >= 0 {
			if c := s.imply(no(w.bar), because); c != nil {
				return c
			}
		}
		if w.gate >= 0 {
			if c := s.imply(no(w.gate), reason{kind: byWant, want: w}); c != nil {
				return c
			}
		}
	}
	return nil
}

// excluded propagates a record that became false: its wants may have one candidate left, or
// none.
func (s *search) excluded(p *pkg, v int32) (conflict []lit) {
	i := v - p.first
	for _, w := range p.wants {
		if w.gate < 0 || (w.watch[0] != i && w.watch[1] != i) {
			continue
		}
		if c := s.narrow(w); c != nil {
			return c
		}
	}
	return nil
}

// narrow looks for two records that may still satisfy a want. If only one is left and the
// gate is true, it is chosen. If none is left, the gate becomes false.
func (s *search) narrow(w *want) (conflict []lit) {
	if s.value[w.gate] == -1 {
		return nil
	}
	p := w.pkg
	because := reason{kind: byWant, want: w}
	if p.chosen >= 0 {
		if w.fits[p.chosen] {
			return nil
		}
		return s.imply(no(w.gate), because)
	}
	found := 0
	for _, i := range w.matching {
		if s.value[p.first+i] == -1 {
			continue
		}
		w.watch[found] = i
		if found++; found == 2 {
			return nil
		}
	}
	switch {
	case found == 0:
		return s.imply(no(w.gate), because)
	case s.value[w.gate] == 1:
		return s.imply(yes(p.first+w.watch[0]), because)
	}
	return nil
}

// implyAll makes records false, each of which implies the negation of the true literal because.
func (s *search) implyAll(records []int32, because lit) (conflict []lit) {
	for _, v := range records {
		if c := s.imply(no(v), reason{kind: byPair, other: because}); c != nil {
			return c
		}
	}
	return nil
}

// excludeMismatches makes all records false that do not match a bar.
func (s *search) excludeMismatches(w *want, because lit) (conflict []lit) {
	p := w.pkg
	if p.chosen >= 0 && w.fits[p.chosen] {
		return nil
	}
	for i := range p.records {
		if w.fits[i] {
			continue
		}
		if c := s.imply(no(p.first+int32(i)), reason{kind: byPair, other: because}); c != nil {
			return c
		}
	}
	return nil
}

// checkWatches checks the learnt clauses that watch l, which is now false.
func (s *search) checkWatches(l lit) (conflict []lit) {
	watching := s.watches[l]
	keep := watching[:0]
	for at, id := range watching {
		c := s.learnt[id]
		if c[0] == l {
			c[0], c[1] = c[1], c[0]
		}
		if s.lit(c[0]) == 1 {
			keep = append(keep, id)
			continue
		}
		if s.moveWatch(c, id) {
			continue
		}
		keep = append(keep, id)
		if conflict = s.imply(c[0], reason{kind: byLearnt, clause: id}); conflict != nil {
			keep = append(keep, watching[at+1:]...)
			break
		}
	}
	s.watches[l] = keep
	return conflict
}

// moveWatch finds another literal to watch in place of c[1].
func (s *search) moveWatch(c []lit, id int32) bool {
	for k := 2; k < len(c); k++ {
		if s.lit(c[k]) != -1 {
			c[1], c[k] = c[k], c[1]
			s.watch(c[1], id)
			return true
		}
	}
	return false
}
