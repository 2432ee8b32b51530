package solver

import (
	"errors"
	"slices"
	"strings"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
)

// pkg is a shelf in one search.
type pkg struct {
	*shelf
	// first is the variable of records[0]; the others follow.
	first int32
	// chosen is the record that is true, -1 for none: then all others count as false.
	chosen int32
	// wants are those that stand in clauses.
	wants []*want
	// watched are records that learnt clauses watch.
	watched []int32
	// activity grows with each conflict that the package is part of.
	activity float64
}

// pkg gives the package of a name.
func (s *search) pkg(name string) (*pkg, error) {
	if p := s.pkgs[name]; p != nil {
		return p, nil
	}
	if err := s.over(); err != nil {
		return nil, err
	}
	records, err := s.library.shelf(s.place(name))
	if err != nil {
		return nil, err
	}
	p := &pkg{shelf: records, chosen: -1, first: s.nextVar()}
	for range p.records {
		s.newVar(variable{kind: ofRecord, pkg: p})
	}
	s.pkgs[name] = p
	s.byActivity = append(s.byActivity, p)
	return p, nil
}

func (s *search) place(name string) place { return place{name, s.channelOf[name]} }

// want is a match in one search.
type want struct {
	*match
	pkg *pkg
	// gate is the variable "one of those that fit is chosen", bar is "none that does not
	// fit is chosen"; -1 where nobody needs it.
	gate, bar int32
	// needs and bars are the records that need the gate and the bar to be true.
	needs, bars []int32
	// watch are two records that fit and are not false, while the gate may be true.
	watch [2]int32
}

// want gives the want of a dependency as a record writes it.
func (s *search) want(text string) (*want, error) {
	if w := s.wants[text]; w != nil {
		return w, nil
	}
	spec, unread := readSpec(text)
	if unread == "" {
		return s.newWant(text, spec)
	}
	name := nameOf(text)
	nothing := &match{spec: conda.MatchSpec{Name: name}, unread: unread, isSorted: true}
	w := &want{match: nothing, pkg: &pkg{shelf: &shelf{name: name}, chosen: -1}, gate: -1, bar: -1}
	s.wants[text] = w
	return w, nil
}

// readSpec reads a dependency, or says why it cannot be met.
func readSpec(text string) (spec conda.MatchSpec, unread string) {
	spec, err := conda.ParseMatchSpec(text)
	switch {
	case errors.Is(err, fault.Unsupported):
		return spec, "dependencies under a condition, and extras, cannot be solved yet"
	case err != nil:
		return spec, "that cannot be read"
	}
	return spec, ""
}

// wantSpec gives the want of a specification.
func (s *search) wantSpec(spec conda.MatchSpec) (*want, error) {
	text := spec.String()
	if w := s.wants[text]; w != nil {
		return w, nil
	}
	return s.newWant(text, spec)
}

func (s *search) newWant(text string, spec conda.MatchSpec) (*want, error) {
	p, err := s.pkg(spec.Name)
	if err != nil {
		return nil, err
	}
	m, err := s.library.match(s.over, s.place(spec.Name), text, spec)
	if err != nil {
		return nil, err
	}
	w := &want{match: m, pkg: p, gate: -1, bar: -1}
	s.wants[text] = w
	return w, nil
}

// dependencies are the wants of what a record needs.
func (s *search) dependencies(r *conda.Record) ([]*want, error) {
	if known, ok := s.depends[r]; ok {
		return known, nil
	}
	out, err := s.wantsOf(r, r.Depends, false)
	if err != nil {
		return nil, err
	}
	s.depends[r] = out
	return out, nil
}

// constraints are the wants that other packages must fit, where they are there.
func (s *search) constraints(r *conda.Record) ([]*want, error) {
	all, err := s.wantsOf(r, r.Constrains, true)
	return slices.DeleteFunc(all, func(w *want) bool { return w.unread != "" }), err
}

func (s *search) wantsOf(r *conda.Record, texts []string, bars bool) ([]*want, error) {
	out := make([]*want, 0, len(texts))
	for _, text := range texts {
		if s.only != nil && !s.only[edge{r.Name, nameOf(text), bars}] {
			continue
		}
		w, err := s.want(text)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// nameOf is the name that a dependency begins with, as far as that can be seen.
func nameOf(text string) string {
	if _, after, ok := strings.Cut(text, "::"); ok {
		text = after
	}
	if n := strings.IndexAny(text, " =<>!~[,;"); n >= 0 {
		text = text[:n]
	}
	return strings.ToLower(text)
}
