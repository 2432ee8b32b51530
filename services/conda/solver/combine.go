package solver

import (
	"context"
	"errors"
	"slices"

	"slipway.dev/services/conda/spec"
)

// combine resolves one conflict after another, each with a change that makes its own
// specifications solvable, until the whole request is solvable.
func (a *adviser) combine(ctx context.Context) {
	p, c := a.problem, a.conflict
	var changes []change
	for len(changes) < maxChanges {
		next, ok := a.repair(ctx, p, c)
		if !ok {
			return
		}
		changes, p = append(changes, next), next.of(p)
		s := a.search(ctx, p)
		if s == nil {
			return
		}
		switch err := s.solve(); {
		case err == nil:
			a.suggestAll(p, changes, s.solution())
			return
		case !errors.Is(err, errNone) || !errors.As(explain(ctx, s), &c):
			return
		}
	}
}

// repair returns a change that makes the specifications of a conflict solvable.
func (a *adviser) repair(ctx context.Context, p Problem, c *Conflict) (change, bool) {
	part := adviser{problem: p, conflict: c, tries: a.tries, most: 1, packages: len(p.Specs)}
	var places []int // indexes into p of the specifications that are part of the conflict
	part.problem.Specs = slices.DeleteFunc(slices.Clone(p.Specs), func(wanted spec.MatchSpec) bool { return !part.isPart(wanted) })
	for at, wanted := range p.Specs {
		if part.isPart(wanted) {
			places = append(places, at)
		}
	}
	part.findChanges(ctx)
	if len(part.found) == 0 {
		return change{}, false
	}
	out := part.found[0]
	out.at = places[out.at]
	if out.isLoose { // the version depends on the whole request
		out.spec = spec.MatchSpec{Name: out.spec.Name}
	}
	return out, true
}

// suggestAll suggests changes that together turn the request into p, which has the given
// solution.
func (a *adviser) suggestAll(p Problem, changes []change, solution *Solution) {
	for i := range changes {
		if !changes[i].pin(&p, solution) {
			return
		}
	}
	a.suggest(p, changes...)
}
