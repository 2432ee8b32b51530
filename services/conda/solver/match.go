package solver

import "slipway.dev/services/conda/spec"

// A match is a specification with the records that match it.
type match struct {
	spec spec.MatchSpec
	// unread explains why a dependency cannot be parsed; "" if it was parsed.
	unread string
	// fits reports, by record, whether it matches. matching lists the matching records, best
	// first except for ties. sorted is that list in its final order, computed on first use.
	fits             []bool
	matching, sorted []int32
	isSorted         bool
	// reach is the best version that matches, computed on first use.
	reach *reach
}

// checkEvery is the number of records that are matched between two checks of the context.
const checkEvery = 256

// match returns the candidates that match spec, which was parsed from text. It ends with the
// error of over.
func (l *library) match(over func() error, at packageKey, text string, wanted spec.MatchSpec) (*match, error) {
	known := l.matches[at]
	if known == nil {
		known = map[string]*match{}
		l.matches[at] = known
	}
	if m := known[text]; m != nil {
		return m, nil
	}
	p, err := l.candidates(at)
	if err != nil {
		return nil, err
	}
	m := &match{spec: wanted, fits: make([]bool, len(p.records))}
	if err := m.evaluate(over, p); err != nil {
		return nil, err
	}
	const word = 300 // bytes of a want, a match and their map entries
	if err := l.take(word + len(text) + len(m.fits) + 2*4*len(m.matching)); err != nil {
		return nil, err
	}
	known[text] = m
	return m, nil
}

// versions returns for each version of the candidates whether it matches the specification.
func (m *match) versions(over func() error, p *candidates) ([]bool, error) {
	of := make([]bool, len(p.versions))
	for i, v := range p.versions {
		if i%checkEvery == 0 {
			if err := over(); err != nil {
				return nil, err
			}
		}
		of[i] = m.spec.Version.Match(v)
	}
	return of, nil
}

// evaluate matches the specification against each record.
func (m *match) evaluate(over func() error, p *candidates) error {
	of, err := m.versions(over, p)
	if err != nil {
		return err
	}
	more := m.spec.HasOtherFields()
	for at, i := range p.order {
		if at%checkEvery == 0 {
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
