package solver

import (
	"sort"
	"strings"
)

// A class is a set of records of one version and build number with equal dependencies and
// constraints, as builds of a package often have. Each record implies the class, and the
// class implies the dependencies, so that a clause learnt for one record applies to all of
// them.
type class struct {
	pkg *pkg
	// variable is true if one of the records is chosen.
	variable int32
	// records holds indexes into the records of the package.
	records []int32
}

// classMembers returns the records of the class of record i, including i.
func (p *candidates) classMembers(i int32) []int32 {
	if p.classes == nil {
		p.classes = make([][]int32, len(p.records))
	}
	if p.classes[i] == nil {
		p.classify(p.ties(i))
	}
	return p.classes[i]
}

// ties returns the records that compare equal to record i, including i.
func (p *candidates) ties(i int32) []int32 {
	from := sort.Search(len(p.order), func(at int) bool { return p.compare(p.order[at], i) >= 0 })
	to := from
	for to < len(p.order) && p.compare(p.order[to], i) == 0 {
		to++
	}
	return p.order[from:to]
}

func (p *candidates) classify(tied []int32) {
	if len(tied) == 1 {
		p.classes[tied[0]] = tied
		return
	}
	by := map[[2]string][]int32{}
	for _, i := range tied {
		r := p.records[i]
		needs := [2]string{strings.Join(r.Depends, "\n"), strings.Join(r.Constrains, "\n")}
		by[needs] = append(by[needs], i)
	}
	for _, same := range by {
		for _, i := range same {
			p.classes[i] = same
		}
	}
}

// newClass creates the class of a chosen record. The caller must then encode its
// dependencies.
func (s *search) newClass(v int32, p *pkg, records []int32, needs []*want) (encoded int32, conflict []lit) {
	c := &class{pkg: p, records: records}
	c.variable = s.newVar(variable{kind: ofClass, class: c})
	for _, i := range records {
		s.implies[p.first+i] = []lit{yes(c.variable)}
		s.need[p.first+i] = int32(len(s.needs))
		s.depends[p.records[i]] = needs
	}
	return c.variable, s.imply(yes(c.variable), reason{kind: byPair, other: yes(v)})
}

// excludeAll makes all records of a false class false.
func (s *search) excludeAll(c *class) (conflict []lit) {
	for _, i := range c.records {
		if conflict := s.imply(no(c.pkg.first+i), reason{kind: byPair, other: no(c.variable)}); conflict != nil {
			return conflict
		}
	}
	return nil
}
