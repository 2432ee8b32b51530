package solver

import (
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
)

// solution returns the chosen records in order.
func (s *search) solution() *Solution {
	chosen := map[string]*spec.Record{}
	for _, l := range s.trail {
		of := &s.variables[l.variable()]
		if of.kind == ofRecord && !l.isNo() && !strings.HasPrefix(of.pkg.name, "__") {
			chosen[of.pkg.name] = of.pkg.records[l.variable()-of.pkg.first]
		}
	}
	o := ordering{search: s, chosen: chosen, visited: map[string]bool{}}
	names := make([]string, 0, len(chosen))
	for name := range chosen {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		o.visit(name)
	}
	return &Solution{Records: o.out, Virtual: slices.Clone(s.library.problem.Virtual)}
}

// An ordering sorts packages so that dependencies come first.
type ordering struct {
	*search
	chosen  map[string]*spec.Record
	visited map[string]bool
	out     []spec.Record
}

func (o *ordering) visit(name string) {
	r := o.chosen[name]
	if r == nil || o.visited[name] {
		return
	}
	o.visited[name] = true
	var needs []string
	for _, w := range o.depends[r] {
		needs = append(needs, w.pkg.name)
	}
	slices.Sort(needs)
	for _, need := range needs {
		// python depends on pip only so that pip is installed; pip needs python to be
		// installed first.
		if name != "python" || need != "pip" {
			o.visit(need)
		}
	}
	o.out = append(o.out, *r)
}
