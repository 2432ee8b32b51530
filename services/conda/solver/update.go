package solver

import (
	"context"
	"slices"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// Update solves a problem and minimizes the changes to its installed packages. The packages
// in updated get the versions that SolveAnywhere selects, and do not count as changes. The
// solution is a local minimum: no single changed package could have kept its installed
// record. isMinimal is false if the search stopped after limits.CondaUpdate.
func Update(ctx context.Context, p Problem, updated []string) (solution *Solution, isMinimal bool, err error) {
	solution, err = SolveAnywhere(ctx, p)
	if err != nil {
		return nil, false, err
	}
	changed := changedBy(solution, p.Installed, updated)
	if len(changed) == 0 {
		return solution, true, nil
	}
	p.Virtual = solution.Virtual
	if p.Specs, err = withVersions(p.Specs, solution, updated); err != nil {
		return nil, false, err
	}
	within, cancel := context.WithTimeout(ctx, limits.CondaUpdate)
	defer cancel()
	l := newLibrary(&p)
	smallest(within, changed, func(may []string) bool {
		s := newSearch(within, l, p.Specs)
		for i := range p.Installed {
			if name := p.Installed[i].Name; !slices.Contains(may, name) && !slices.Contains(updated, name) {
				s.held = append(s.held, name)
			}
		}
		if s.solve() != nil {
			return false
		}
		solution = s.solution()
		return true
	})
	return solution, within.Err() == nil, ctx.Err()
}

// changedBy returns the names of installed packages for which a solution has another
// artifact, except those in updated.
func changedBy(s *Solution, installed []spec.Record, updated []string) (out []string) {
	for i := range s.Records {
		r := &s.Records[i]
		at := slices.IndexFunc(installed, func(o spec.Record) bool { return o.Name == r.Name })
		if at >= 0 && !installed[at].SameArtifact(*r) && !slices.Contains(updated, r.Name) {
			out = append(out, r.Name)
		}
	}
	return out
}

// withVersions returns specifications that additionally require the versions, but not the
// builds, that updated packages have in a solution.
func withVersions(specs []spec.MatchSpec, s *Solution, updated []string) ([]spec.MatchSpec, error) {
	specs = slices.Clone(specs)
	for i := range s.Records {
		r := &s.Records[i]
		if !slices.Contains(updated, r.Name) {
			continue
		}
		exact, err := spec.ParseVersionSpec("==" + r.Version)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec.MatchSpec{Name: r.Name, Version: exact})
	}
	return specs, nil
}
