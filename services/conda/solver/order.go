package solver

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
)

// sort puts the matching records in their final order. Ties are resolved by the best
// versions that the tied records allow for their common dependencies, then by age.
func (s *search) sort(w *want) error {
	if w.isSorted {
		return nil
	}
	if s.only != nil {
		// Whether a solution exists does not depend on the order.
		w.sorted = w.matching
		return nil
	}
	w.sorted = slices.Clone(w.matching)
	for from := 0; from < len(w.sorted); {
		to := from + 1
		for to < len(w.sorted) && w.pkg.compare(w.sorted[from], w.sorted[to]) == 0 {
			to++
		}
		if to-from > 1 {
			if err := s.breakTie(w.pkg.candidates, w.sorted[from:to]); err != nil {
				return err
			}
		}
		from = to
	}
	w.isSorted = true
	return nil
}

// A reach is the best version that a dependency can have. known is false if no record
// matches; tracks is set if the best record has track features.
type reach struct {
	known  bool
	tracks bool
	at     int32 // index into the package's versions
}

// compare orders two reaches; the better one comes first.
func (a reach) compare(b reach) int {
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

// breakTie orders records of one version and build number.
func (s *search) breakTie(p *candidates, tied []int32) error {
	can := map[int32][]named{} // by the first record of a class
	var shared []string
	for at, i := range tied {
		class := p.classMembers(i)[0]
		if _, known := can[class]; known {
			continue
		}
		if err := s.over(); err != nil {
			return err
		}
		of, err := s.reaches(p.records[class])
		if err != nil {
			return err
		}
		can[class] = of
		if at == 0 {
			for _, n := range of {
				shared = append(shared, n.name)
			}
			continue
		}
		shared = slices.DeleteFunc(shared, func(name string) bool { _, ok := find(of, name); return !ok })
	}
	for i, of := range can {
		can[i] = slices.DeleteFunc(of, func(n named) bool { _, ok := slices.BinarySearch(shared, n.name); return !ok })
	}
	slices.SortStableFunc(tied, func(x, y int32) int {
		return cmp.Or(compareReach(can[p.classMembers(x)[0]], can[p.classMembers(y)[0]]), cmp.Compare(p.records[y].Timestamp, p.records[x].Timestamp))
	})
	return nil
}

// compareReach compares by the first dependency that differs. Both lists have the same
// names.
func compareReach(a, b []named) int {
	for k := range a {
		if c := a[k].compare(b[k].reach); c != 0 {
			return c
		}
	}
	return 0
}

// A named is the best version that a dependency of that name can have.
type named struct {
	name string
	reach
}

func find(in []named, name string) (int, bool) {
	return slices.BinarySearchFunc(in, name, func(n named, name string) int { return strings.Compare(n.name, name) })
}

// reaches returns the best possible version of each dependency of a record, by name. If a
// record depends on a name twice, the worse version counts.
func (s *search) reaches(r *spec.Record) ([]named, error) {
	wants, err := s.dependencies(r)
	if err != nil {
		return nil, err
	}
	out := make([]named, 0, len(wants))
	for _, w := range wants {
		now := w.best()
		at, twice := find(out, w.pkg.name)
		switch {
		case !twice:
			out = slices.Insert(out, at, named{w.pkg.name, now})
		case now.known && out[at].compare(now) < 0:
			out[at].reach = now
		}
	}
	return out, nil
}

// best returns the reach of the newest matching version, or of the installed record if it
// matches.
func (w *want) best() reach {
	if w.reach != nil {
		return *w.reach
	}
	var out reach
	for _, i := range w.matching {
		if w.pkg.isInstalled(i) {
			out = reach{known: true, at: math.MaxInt32} // better than any other record
			break
		}
		if at := w.pkg.version[i]; !out.known || at > out.at {
			out = reach{known: true, at: at, tracks: w.pkg.tracks(i) > 0}
		}
	}
	w.reach = &out
	return out
}
