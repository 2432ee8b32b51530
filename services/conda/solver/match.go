package solver

import "slipway.dev/services/internal/conda"

// match is one specification, and what fits it.
type match struct {
	spec conda.MatchSpec
	// unread is why a dependency cannot be met by anything; "" where it was read.
	unread string
	// fits is by record; matching lists those that do, best first but for ties, and sorted
	// is that list in its final order, once it was asked for.
	fits             []bool
	matching, sorted []int32
	isSorted         bool
	// reach is the best that fits, once it was asked for.
	reach *reach
}

// match gives what of a shelf fits a specification, which is written as text.
func (l *library) match(at place, text string, spec conda.MatchSpec) (*match, error) {
	known := l.matches[at]
	if known == nil {
		known = map[string]*match{}
		l.matches[at] = known
	}
	if m := known[text]; m != nil {
		return m, nil
	}
	p, err := l.shelf(at)
	if err != nil {
		return nil, err
	}
	m := &match{spec: spec, fits: make([]bool, len(p.records))}
	of := make([]bool, len(p.versions))
	for i, v := range p.versions {
		of[i] = spec.Version.Match(v)
	}
	more := spec.AsksMore()
	for _, i := range p.order {
		if !of[p.version[i]] || (more && !spec.MatchRest(p.records[i])) {
			continue
		}
		m.fits[i] = true
		m.matching = append(m.matching, i)
	}
	known[text] = m
	return m, nil
}
