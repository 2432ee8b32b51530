package solver

// encodeRequest encodes the request's specifications as clauses.
func (s *search) encodeRequest() (conflict []lit, _ error) {
	wants := make([]*want, len(s.specs))
	for i, wanted := range s.specs {
		w, err := s.wantSpec(wanted)
		if err != nil {
			return nil, err
		}
		wants[i] = w
	}
	var bars []*want
	for _, name := range s.held {
		w, err := s.wantInstalled(name)
		if err != nil {
			return nil, err
		}
		if w != nil {
			bars = append(bars, w)
		}
	}
	return s.encode(s.root, wants, bars)
}

// unencoded returns the chosen records whose dependencies have not been encoded, in the
// order in which they were chosen.
func (s *search) unencoded() []int32 {
	var out []int32
	for _, l := range s.trail {
		if v := l.variable(); !l.isNo() && s.variables[v].kind == ofRecord {
			if _, known := s.implies[v]; !known {
				out = append(out, v)
			}
		}
	}
	return out
}

// encodeAll encodes the dependencies of records. If they contradict the current decisions,
// it restarts; learnt clauses are retained.
func (s *search) encodeAll(records []int32) error {
	again := false
	for _, v := range records {
		if err := s.over(); err != nil {
			return err
		}
		conflict, err := s.encodeRecord(v)
		if err != nil {
			return err
		}
		again = again || conflict != nil
	}
	if !again && s.propagate() == nil {
		return nil
	}
	return s.restart()
}

func (s *search) encodeRecord(v int32) (conflict []lit, _ error) {
	p := s.variables[v].pkg
	r := p.records[v-p.first]
	needs, err := s.dependencies(r)
	if err != nil {
		return nil, err
	}
	bars, err := s.constraints(r)
	if err != nil {
		return nil, err
	}
	if s.level[v] < s.depth() {
		s.late = append(s.late, v)
	}
	records := p.classMembers(v - p.first)
	if len(records) == 1 {
		return s.encode(v, needs, bars)
	}
	encoded, conflict := s.newClass(v, p, records, needs)
	more, err := s.encode(encoded, needs, bars)
	if conflict == nil {
		conflict = more
	}
	return conflict, err
}

// encode encodes the dependencies and constraints of a record or the request as clauses. It
// continues after a conflict and returns the first one.
func (s *search) encode(v int32, needs, bars []*want) (conflict []lit, _ error) {
	keep := func(c []lit) {
		if conflict == nil {
			conflict = c
		}
	}
	implied := make([]lit, 0, len(needs)+len(bars))
	for _, w := range needs {
		if err := s.sort(w); err != nil {
			return nil, err
		}
		s.addGate(w)
		w.needs = append(w.needs, v)
		implied = append(implied, yes(w.gate))
		keep(s.narrow(w))
	}
	for _, w := range bars {
		s.addBar(w)
		w.bars = append(w.bars, v)
		implied = append(implied, yes(w.bar))
		keep(s.checkBar(w))
	}
	for _, l := range implied {
		keep(s.imply(l, reason{kind: byPair, other: yes(v)}))
	}
	s.implies[v] = implied
	if v != s.root {
		s.need[v] = int32(len(s.needs))
		s.live.put(s.need[v], s.value[v] == 1)
	}
	s.needs = append(s.needs, need{of: v, wants: needs})
	return conflict, nil
}

func (s *search) addGate(w *want) {
	if w.gate >= 0 {
		return
	}
	w.gate = s.newVar(variable{kind: ofGate, want: w})
	if w.bar < 0 {
		w.pkg.wants = append(w.pkg.wants, w)
	}
}

func (s *search) addBar(w *want) {
	if w.bar >= 0 {
		return
	}
	w.bar = s.newVar(variable{kind: ofBar, want: w})
	if w.gate < 0 {
		w.pkg.wants = append(w.pkg.wants, w)
	}
}

// checkBar makes a bar false if the chosen record does not match it.
func (s *search) checkBar(w *want) (conflict []lit) {
	p := w.pkg
	if p.chosen < 0 || w.fits[p.chosen] {
		return nil
	}
	return s.imply(no(w.bar), reason{kind: byPair, other: yes(p.first + p.chosen)})
}

// restart undoes all decisions but retains all clauses.
func (s *search) restart() error {
	s.backTo(0)
	s.done = 0
	s.late = s.late[:0]
	for _, n := range s.needs {
		for _, w := range n.wants {
			if s.narrow(w) != nil {
				return errNone
			}
		}
	}
	if s.propagate() != nil {
		return errNone
	}
	return nil
}
