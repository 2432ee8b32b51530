package solver

import (
	"context"
	"slices"
	"strings"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/limits"
)

// Suggestion is a change that makes a request possible: it was solved.
type Suggestion struct {
	// Change is what to do, in words.
	Change string `json:"change"`
	// Packages are the request's specifications with the change, without the fixed ones.
	Packages []string `json:"packages"`
	// Channels are the request's, where the change adds one; else empty.
	Channels []string `json:"channels,omitempty"`
}

// maxSuggestions is how many are worth reading, maxChanges how many one may combine.
const (
	maxSuggestions = 3
	maxChanges     = 4
)

// Suggest looks for small changes to a request that make it possible: a name that was
// meant, a channel that has it, a bound less, another version, a package less; where no
// single one does, a few together. p is the problem that c came of. It gives up quietly
// after limits.CondaSuggest; the error is ctx's. Not for two goroutines with one c.
func Suggest(ctx context.Context, p Problem, c *Conflict) ([]Suggestion, error) {
	within, cancel := context.WithTimeout(ctx, limits.CondaSuggest)
	defer cancel()
	tries := limits.CondaTries
	a := adviser{problem: p, conflict: c, tries: &tries, most: maxSuggestions, packages: len(p.Specs) - p.Fixed}
	a.look(within)
	if len(a.out) == 0 {
		a.combine(within)
	}
	return a.out, ctx.Err()
}

// adviser looks for changes to one problem.
type adviser struct {
	problem  Problem
	conflict *Conflict
	// tries is how many more solves there may be, most how many changes are looked for.
	tries *int
	most  int
	// packages is how many the whole request names.
	packages int
	// found are changes, each of which makes the problem one that can be; out says them.
	found []change
	out   []Suggestion
}

// look tries changes to each specification that is part of the conflict.
func (a *adviser) look(ctx context.Context) {
	for _, step := range []func(context.Context, conda.MatchSpec, int){a.names, a.channels, a.loosen, a.leaveOut} {
		for at, spec := range a.problem.Specs[:len(a.problem.Specs)-a.problem.Fixed] {
			if a.isPart(spec) {
				step(ctx, spec, at)
			}
		}
	}
}

func (a *adviser) isPart(spec conda.MatchSpec) bool {
	return slices.ContainsFunc(a.conflict.specs, func(s conda.MatchSpec) bool { return s.String() == spec.String() })
}

// search is one for a changed request; nil where enough was tried.
func (a *adviser) search(ctx context.Context, p Problem) *search {
	if *a.tries == 0 || ctx.Err() != nil {
		return nil
	}
	*a.tries--
	l := a.conflict.library
	if l == nil || len(p.Channels) != len(a.problem.Channels) {
		l = newLibrary(&p)
	}
	return newSearch(ctx, l, p.Specs)
}

// try keeps a change if it makes a request that can be.
func (a *adviser) try(ctx context.Context, c change) bool {
	if len(a.found) >= a.most {
		return false
	}
	p := c.of(a.problem)
	s := a.search(ctx, p)
	if s == nil || s.solve() != nil || !c.settle(&p, s.solution()) {
		return false
	}
	a.found = append(a.found, c)
	a.suggest(p, c)
	return true
}

// suggest says changes that lead to p.
func (a *adviser) suggest(p Problem, changes ...change) {
	var s Suggestion
	words := make([]string, len(changes))
	for i := range changes {
		words[i] = changes[i].words()
	}
	if last := len(words) - 1; last > 0 {
		words[last] = "and " + words[last]
	}
	s.Change = strings.Join(words, ", ")
	for _, spec := range p.Specs[:len(p.Specs)-p.Fixed] {
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
		if a.try(ctx, change{added: &c}) {
			break
		}
	}
	nearest := a.conflict.Missing[i].Nearest
	for _, name := range nearest[:min(2, len(nearest))] {
		meant := spec
		meant.Name = name
		a.try(ctx, change{at: at, was: spec, spec: meant})
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
		if a.try(ctx, change{at: at, was: spec, spec: from}) {
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
			if a.try(ctx, change{at: at, was: spec, spec: fewer}) {
				return
			}
		}
	}
	alone := conda.MatchSpec{Name: spec.Name}
	if alone.String() != spec.String() && !a.isAskedTwice(spec.Name) {
		a.try(ctx, change{at: at, was: spec, spec: alone, isLoose: true})
	}
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
	if len(a.found) == 0 && a.packages > 1 {
		a.try(ctx, change{at: at, was: spec, isLeftOut: true})
	}
}
