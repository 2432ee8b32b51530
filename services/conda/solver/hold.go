package solver

import (
	"context"
	"errors"
	"slices"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// Hold solves a problem without a change of its installed packages, except those in free. It
// returns nil if there is no such solution. Packages that are not installed may be added.
func Hold(ctx context.Context, p Problem, free []string) (*Solution, error) {
	budget, cancel := context.WithTimeoutCause(ctx, limits.CondaSolve, errTooHard)
	defer cancel()
	solution, err := hold(budget, p, free)
	hasCUDA := slices.ContainsFunc(p.Virtual, func(v spec.VirtualPackage) bool { return v.Name == "__cuda" })
	if errors.Is(err, errNone) && !hasCUDA { // see SolveAnywhere
		p.Virtual = append(slices.Clone(p.Virtual), spec.VirtualPackage{Name: "__cuda", Version: newestCUDA, Build: "0"})
		solution, err = hold(budget, p, free)
	}
	if errors.Is(err, errNone) {
		return nil, nil //nolint:nilnil // there is no solution
	}
	return solution, inTime(ctx, err)
}

func hold(ctx context.Context, p Problem, free []string) (*Solution, error) {
	s := newSearch(ctx, newLibrary(&p), p.Specs)
	for i := range p.Installed {
		if name := p.Installed[i].Name; !slices.Contains(free, name) {
			s.held = append(s.held, name)
		}
	}
	if err := s.solve(); err != nil {
		return nil, err
	}
	return s.solution(), nil
}
