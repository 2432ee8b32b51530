package solver

import (
	"errors"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// A pkg holds the candidates of one name within one search.
type pkg struct {
	*candidates
	// first is the variable of records[0]; those of the other records follow.
	first int32
	// chosen is the record that is true, or -1. If a record is chosen, all others count as
	// false.
	chosen int32
	// wants lists the wants that occur in clauses.
	wants []*want
	// watched lists the records that learnt clauses watch.
	watched []int32
	// activity increases with each conflict that involves the package.
	activity float64
}

// pkg returns the package of a name.
func (s *search) pkg(name string) (*pkg, error) {
	if p := s.pkgs[name]; p != nil {
		return p, nil
	}
	if err := s.over(); err != nil {
		return nil, err
	}
	records, err := s.library.candidates(s.keyOf(name))
	if err != nil {
		return nil, err
	}
	p := &pkg{candidates: records, chosen: -1, first: s.nextVar()}
	for range p.records {
		s.newVar(variable{kind: ofRecord, pkg: p})
	}
	s.pkgs[name] = p
	s.byActivity = append(s.byActivity, p)
	return p, nil
}

func (s *search) keyOf(name string) packageKey { return packageKey{name, s.channelOf[name]} }

// A want is a match within one search.
type want struct {
	*match
	pkg *pkg
	// gate is the variable "a matching record is chosen". bar is the variable "no record
	// that does not match is chosen". Each is -1 until it is used.
	gate, bar int32
	// needs and bars list the records that require the gate and the bar to be true.
	needs, bars []int32
	// watch holds two matching records that are not false, while the gate may be true.
	watch [2]int32
}

// want returns the want of a dependency from its source text.
func (s *search) want(text string) (*want, error) {
	if w := s.wants[text]; w != nil {
		return w, nil
	}
	wanted, unread := readSpec(text)
	if unread == "" {
		return s.newWant(text, wanted)
	}
	name := nameOf(text)
	nothing := &match{spec: spec.MatchSpec{Name: name}, unread: unread, isSorted: true}
	w := &want{match: nothing, pkg: &pkg{candidates: &candidates{name: name}, chosen: -1}, gate: -1, bar: -1}
	s.wants[text] = w
	return w, nil
}

// readSpec parses a dependency, or explains why it cannot be satisfied.
func readSpec(text string) (wanted spec.MatchSpec, unread string) {
	wanted, err := spec.ParseMatchSpec(text)
	switch {
	case errors.Is(err, fault.Unsupported):
		return wanted, "conditional dependencies and extras are not supported"
	case err != nil:
		return wanted, "that cannot be read"
	}
	return wanted, ""
}

// wantSpec returns the want of a specification.
func (s *search) wantSpec(wanted spec.MatchSpec) (*want, error) {
	text := wanted.String()
	if w := s.wants[text]; w != nil {
		return w, nil
	}
	return s.newWant(text, wanted)
}

func (s *search) newWant(text string, wanted spec.MatchSpec) (*want, error) {
	p, err := s.pkg(wanted.Name)
	if err != nil {
		return nil, err
	}
	m, err := s.library.match(s.over, s.keyOf(wanted.Name), text, wanted)
	if err != nil {
		return nil, err
	}
	w := &want{match: m, pkg: p, gate: -1, bar: -1}
	s.wants[text] = w
	return w, nil
}

// wantInstalled returns a want that only the installed record of a name satisfies, or nil if
// there is no such record.
func (s *search) wantInstalled(name string) (*want, error) {
	p, err := s.pkg(name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.records, func(r *spec.Record) bool { return r == p.installed })
	if i < 0 {
		return nil, nil //nolint:nilnil // there is no installed record
	}
	m := &match{spec: spec.MatchSpec{Name: name}, fits: make([]bool, len(p.records)), matching: []int32{int32(i)}}
	m.fits[i] = true
	return &want{match: m, pkg: p, gate: -1, bar: -1}, nil
}

// dependencies returns the wants of a record's dependencies.
func (s *search) dependencies(r *spec.Record) ([]*want, error) {
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

// constraints returns the wants that other packages must match if they are installed.
func (s *search) constraints(r *spec.Record) ([]*want, error) {
	all, err := s.wantsOf(r, r.Constrains, true)
	return slices.DeleteFunc(all, func(w *want) bool { return w.unread != "" }), err
}

func (s *search) wantsOf(r *spec.Record, texts []string, bars bool) ([]*want, error) {
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

// nameOf returns the package name at the start of a dependency, as far as it can be
// recognized.
func nameOf(text string) string {
	if _, after, ok := strings.Cut(text, "::"); ok {
		text = after
	}
	if n := strings.IndexAny(text, " =<>!~[,;"); n >= 0 {
		text = text[:n]
	}
	return strings.ToLower(text)
}
