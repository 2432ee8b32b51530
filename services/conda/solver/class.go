package solver

import "strings"

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
		p.sortAlike()
	}
	return p.classes[i]
}

func (p *shelf) sortAlike() {
	type likeness struct {
		channel, version int32
		tracks           int
		build            uint64
		needs, bars      string
	}
	by := map[likeness][]int32{}
	for i, r := range p.records {
		of := likeness{
			p.channel[i], p.version[i], p.tracks(int32(i)), r.BuildNumber,
			strings.Join(r.Depends, "\n"), strings.Join(r.Constrains, "\n"),
		}
		by[of] = append(by[of], int32(i))
	}
	p.classes = make([][]int32, len(p.records))
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
