package solver

import (
	"context"
	"slices"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/limits"
)

// Suggestion is a change that makes a request possible: it was solved.
type Suggestion struct {
	// Change is what to do, in words.
	Change string `json:"change"`
	// Packages are the request's specifications with the change.
	Packages []string `json:"packages"`
	// Channels are the request's, where the change adds one; else empty.
	Channels []string `json:"channels,omitempty"`
}

// maxSuggestions is how many are worth reading.
const maxSuggestions = 3

// Suggest looks for small changes to a request that make it possible: a name that was
// meant, a channel that has it, a bound less, another version, a package less. p is the
// problem that c came of. It gives up quietly after limits.CondaSuggest; the error is
// ctx's. Not for two goroutines with one c.
func Suggest(ctx context.Context, p Problem, c *Conflict) ([]Suggestion, error) {
	within, cancel := context.WithTimeout(ctx, limits.CondaSuggest)
	defer cancel()
	a := adviser{problem: p, conflict: c, tries: limits.CondaTries}
	for _, step := range []func(context.Context, conda.MatchSpec, int){a.names, a.channels, a.loosen, a.leaveOut} {
		for at, spec := range p.Specs {
			if a.isPart(spec) {
				step(within, spec, at)
			}
		}
	}
	return a.out, ctx.Err()
}

type adviser struct {
	problem  Problem
	conflict *Conflict
	tries    int
	out      []Suggestion
}

func (a *adviser) isPart(spec conda.MatchSpec) bool {
	return slices.ContainsFunc(a.conflict.specs, func(s conda.MatchSpec) bool { return s.String() == spec.String() })
}

// try solves a changed request, and gives its solution; nil where it has none, or
// enough was tried.
func (a *adviser) try(ctx context.Context, p Problem) *Solution {
	if a.tries == 0 || len(a.out) >= maxSuggestions || ctx.Err() != nil {
		return nil
	}
	a.tries--
	l := a.conflict.library
	if l == nil || len(p.Channels) != len(a.problem.Channels) {
		l = newLibrary(&p)
	}
	s := newSearch(ctx, l, p.Specs)
	if s.solve() != nil {
		return nil
	}
	return s.solution()
}

// with is the request with another specification in one's place.
func (a *adviser) with(spec conda.MatchSpec, at int) Problem {
	p := a.problem
	p.Specs = slices.Clone(p.Specs)
	p.Specs[at] = spec
	return p
}

func (a *adviser) suggest(change string, p Problem) {
	s := Suggestion{Change: change}
	for _, spec := range p.Specs {
		s.Packages = append(s.Packages, spec.String())
	}
	if len(p.Channels) != len(a.problem.Channels) {
		for i := range p.Channels {
			s.Channels = append(s.Channels, p.Channels[i].Name)
		}
	}
	a.out = append(a.out, s)
}

// names tries what a missing name could have been, and the channels that have it.
func (a *adviser) names(ctx context.Context, spec conda.MatchSpec, at int) {
	i := slices.IndexFunc(a.conflict.Missing, func(m Missing) bool { return m.Name == spec.Name })
	if i < 0 || a.problem.Names == nil {
		return
	}
	for _, c := range a.problem.Names.Elsewhere(spec.Name) {
		p := a.problem
		p.Channels = append(slices.Clip(p.Channels), c)
		if a.try(ctx, p) != nil {
			a.suggest("add the channel "+c.Name, p)
			break
		}
	}
	nearest := a.conflict.Missing[i].Nearest
	for _, name := range nearest[:min(2, len(nearest))] {
		meant := spec
		meant.Name = name
		if p := a.with(meant, at); a.try(ctx, p) != nil {
			a.suggest("ask for "+meant.String()+" instead of "+spec.String(), p)
		}
	}
}

// channels tries, under strict priority, the channels after the first that has a name.
func (a *adviser) channels(ctx context.Context, spec conda.MatchSpec, at int) {
	if spec.Channel != "" || a.problem.Flexible || len(a.problem.Channels) < 2 {
		return
	}
	for _, c := range a.problem.Channels[1:] {
		from := spec
		from.Channel = c.Name
		if p := a.with(from, at); a.try(ctx, p) != nil {
			a.suggest("take "+spec.Name+" from "+c.Name+": "+from.String(), p)
			return
		}
	}
}

// loosen tries a specification with one bound less, then with the name alone, and says
// which version that gives.
func (a *adviser) loosen(ctx context.Context, spec conda.MatchSpec, at int) {
	if bounds := spec.Version.Without(); len(bounds) > 1 {
		for _, v := range bounds {
			fewer := spec
			fewer.Version = v
			if p := a.with(fewer, at); a.try(ctx, p) != nil {
				a.suggest("ask for "+fewer.String()+" instead of "+spec.String(), p)
				return
			}
		}
	}
	alone := conda.MatchSpec{Name: spec.Name}
	if alone.String() == spec.String() || a.isAskedTwice(spec.Name) {
		return
	}
	solution := a.try(ctx, a.with(alone, at))
	if solution == nil {
		return
	}
	i := slices.IndexFunc(solution.Records, func(r conda.Record) bool { return r.Name == spec.Name })
	if i < 0 {
		return
	}
	exact, err := conda.ParseVersionSpec("==" + solution.Records[i].Version)
	if err != nil {
		return
	}
	alone.Version = exact
	a.suggest("ask for "+alone.String()+" instead of "+spec.String(), a.with(alone, at))
}

func (a *adviser) isAskedTwice(name string) bool {
	n := 0
	for _, s := range a.problem.Specs {
		if s.Name == name {
			n++
		}
	}
	return n > 1
}

// leaveOut tries the request with a package less, where nothing better was found.
func (a *adviser) leaveOut(ctx context.Context, spec conda.MatchSpec, at int) {
	if len(a.out) > 0 || len(a.problem.Specs) < 2 {
		return
	}
	p := a.problem
	p.Specs = slices.Concat(p.Specs[:at], p.Specs[at+1:])
	if a.try(ctx, p) != nil {
		a.suggest("leave out "+spec.String(), p)
	}
}
