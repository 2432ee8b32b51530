package solver

import (
	"slices"
	"strings"

	"slipway.dev/services/internal/conda"
)

// want is one distinct specification, and what fits it.
type want struct {
	spec conda.MatchSpec
	// unread is why a dependency cannot be read; nothing fits it then.
	unread error
	pkg    *pkg
	// fits is by record; matching lists those that do, best first but for ties, and sorted
	// is that list in its final order, nil until it is asked for.
	fits             []bool
	matching, sorted []int32
	isSorted         bool
	// reach is the best that fits, once it was asked for.
	reach *reach

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
	spec, err := conda.ParseMatchSpec(text)
	var w *want
	if err != nil {
		name := nameOf(text)
		w = &want{spec: conda.MatchSpec{Name: name}, unread: err, pkg: &pkg{name: name, chosen: -1}, gate: -1, bar: -1}
	} else if w, err = s.newWant(spec); err != nil {
		return nil, err
	}
	s.wants[text] = w
	return w, nil
}

// wantSpec gives the want of a specification.
func (s *search) wantSpec(spec conda.MatchSpec) (*want, error) {
	text := spec.String()
	if w := s.wants[text]; w != nil {
		return w, nil
	}
	w, err := s.newWant(spec)
	if err != nil {
		return nil, err
	}
	s.wants[text] = w
	return w, nil
}

func (s *search) newWant(spec conda.MatchSpec) (*want, error) {
	p, err := s.pkg(spec.Name)
	if err != nil {
		return nil, err
	}
	w := &want{spec: spec, pkg: p, gate: -1, bar: -1, fits: make([]bool, len(p.records))}
	of := make([]bool, len(p.versions))
	for i, v := range p.versions {
		of[i] = spec.Version.Match(v)
	}
	more := spec.AsksMore()
	for _, i := range p.order {
		if !of[p.version[i]] || (more && !spec.MatchRest(p.records[i])) {
			continue
		}
		w.fits[i] = true
		w.matching = append(w.matching, i)
	}
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
	return slices.DeleteFunc(all, func(w *want) bool { return w.unread != nil }), err
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

// sort puts what fits in its final order: ties are broken by the best versions that
// the tied records let their common dependencies have, then by their age.
func (s *search) sort(w *want) error {
	if w.isSorted {
		return nil
	}
	w.isSorted = true
	w.sorted = slices.Clone(w.matching)
	for from := 0; from < len(w.sorted); {
		to := from + 1
		for to < len(w.sorted) && w.pkg.compare(w.sorted[from], w.sorted[to]) == 0 {
			to++
		}
		if to-from > 1 {
			if err := s.breakTie(w.pkg, w.sorted[from:to]); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

// reach is the best that a dependency can have.
type reach struct {
	known  bool
	tracks bool
	at     int32 // index in the package's versions
}

// better orders what dependencies can have, better first.
func (a reach) better(b reach) int {
	switch {
	case !a.known && !b.known:
		return 0
	case !a.known:
		return 1
	case !b.known:
		return -1
	case a.tracks != b.tracks:
		if a.tracks {
			return 1
		}
		return -1
	}
	return int(b.at) - int(a.at)
}

// breakTie orders records that are alike.
func (s *search) breakTie(p *pkg, tied []int32) error {
	can := make(map[int32]map[string]reach, len(tied))
	count := map[string]int{}
	for _, i := range tied {
		of, err := s.reaches(p.records[i])
		if err != nil {
			return err
		}
		can[i] = of
		for name := range of {
			count[name]++
		}
	}
	var shared []string
	for name, n := range count {
		if n == len(tied) {
			shared = append(shared, name)
		}
	}
	slices.Sort(shared)
	slices.SortStableFunc(tied, func(x, y int32) int {
		for _, name := range shared {
			if c := can[x][name].better(can[y][name]); c != 0 {
				return c
			}
		}
		a, b := p.records[x].Timestamp, p.records[y].Timestamp
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return nil
}

// reaches tells what each dependency of a record can have at best; where it names one
// twice, the worse counts.
func (s *search) reaches(r *conda.Record) (map[string]reach, error) {
	wants, err := s.dependencies(r)
	if err != nil {
		return nil, err
	}
	out := make(map[string]reach, len(wants))
	for _, w := range wants {
		now := w.best()
		before, twice := out[w.pkg.name]
		if !twice || (now.known && before.better(now) < 0) {
			out[w.pkg.name] = now
		}
	}
	return out, nil
}

// best is the newest version that fits.
func (w *want) best() reach {
	if w.reach != nil {
		return *w.reach
	}
	var out reach
	for _, i := range w.matching {
		if at := w.pkg.version[i]; !out.known || at > out.at {
			out = reach{known: true, at: at, tracks: w.pkg.tracks(i) > 0}
		}
	}
	w.reach = &out
	return out
}
