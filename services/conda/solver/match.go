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

// often is how many records are judged before it is asked again whether to go on.
const often = 256

// match gives what of a shelf fits a specification, which is written as text. over ends
// it.
func (l *library) match(over func() error, at place, text string, spec conda.MatchSpec) (*match, error) {
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
	if err := m.judge(over, p); err != nil {
		return nil, err
	}
	const word = 300 // a want, a match and their places in maps
	if err := l.take(word + len(text) + len(m.fits) + 2*4*len(m.matching)); err != nil {
		return nil, err
	}
	known[text] = m
	return m, nil
}

// versions says which versions of a shelf fit the specification.
func (m *match) versions(over func() error, p *shelf) ([]bool, error) {
	of := make([]bool, len(p.versions))
	for i, v := range p.versions {
		if i%often == 0 {
			if err := over(); err != nil {
				return nil, err
			}
		}
		of[i] = m.spec.Version.Match(v)
	}
	return of, nil
}

// judge holds the specification against each record.
func (m *match) judge(over func() error, p *shelf) error {
	of, err := m.versions(over, p)
	if err != nil {
		return err
	}
	more := m.spec.AsksMore()
	for at, i := range p.order {
		if at%often == 0 {
			if err := over(); err != nil {
				return err
			}
		}
		if !of[p.version[i]] || (more && !m.spec.MatchRest(p.records[i])) {
			continue
		}
		m.fits[i] = true
		m.matching = append(m.matching, i)
	}
	return nil
}
