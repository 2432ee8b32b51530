package solver

import (
	"sort"
	"strings"
)

// class is records of one version and build number that need and bar the same, as
// builds of a package often do: each of them implies the class, and the class what they
// need. What is learnt of one is learnt of all.
type class struct {
	pkg *pkg
	// variable is true where one of the records is.
	variable int32
	// records are indices in the package's.
	records []int32
}

// alike gives the records of one's class, itself among them.
func (p *shelf) alike(i int32) []int32 {
	if p.classes == nil {
		p.classes = make([][]int32, len(p.records))
	}
	if p.classes[i] == nil {
		p.classify(p.ties(i))
	}
	return p.classes[i]
}

// ties gives the records between which and one there is no order.
func (p *shelf) ties(i int32) []int32 {
	from := sort.Search(len(p.order), func(at int) bool { return p.compare(p.order[at], i) >= 0 })
	to := from
	for to < len(p.order) && p.compare(p.order[to], i) == 0 {
		to++
	}
	return p.order[from:to]
}

func (p *shelf) classify(tied []int32) {
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

// newClass makes the class of a record that is chosen. What it needs is to be encoded
// next.
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

// excludeAll makes all records of a class false that is.
func (s *search) excludeAll(c *class) (conflict []lit) {
	for _, i := range c.records {
		if conflict := s.imply(no(c.pkg.first+i), reason{kind: byPair, other: no(c.variable)}); conflict != nil {
			return conflict
		}
	}
	return nil
}
