package solver

import (
	"context"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// A Suggestion is a change that makes a request solvable. It has been verified by solving.
type Suggestion struct {
	// Change is an instruction to the user.
	Change string `json:"change"`
	// Packages lists the request's specifications with the change applied, without the
	// fixed ones.
	Packages []string `json:"packages"`
	// Channels lists the channels if the change adds one; otherwise it is empty.
	Channels []string `json:"channels,omitempty"`
}

// maxSuggestions is the maximum number of suggestions, maxChanges the maximum number of
// changes in one suggestion.
const (
	maxSuggestions = 3
	maxChanges     = 4
)

// Suggest looks for small changes that make a request solvable: a corrected name, another
// channel, a removed bound, another version, or a removed package. If no single change
// suffices, it tries combinations. p is the problem that c resulted from. After
// limits.CondaSuggest it returns what it found, without an error; the error is that of ctx.
// It must not be called concurrently with one c.
func Suggest(ctx context.Context, p Problem, c *Conflict) ([]Suggestion, error) {
	within, cancel := context.WithTimeout(ctx, limits.CondaSuggest)
	defer cancel()
	tries := limits.CondaTries
	a := adviser{problem: p, conflict: c, tries: &tries, most: maxSuggestions, packages: len(p.Specs) - p.Fixed}
	a.findChanges(within)
	if len(a.out) == 0 {
		a.combine(within)
	}
	return a.out, ctx.Err()
}

// An adviser looks for changes to one problem.
type adviser struct {
	problem  Problem
	conflict *Conflict
	// tries is the number of solves left, most the number of changes to find.
	tries *int
	most  int
	// packages is the number of packages in the whole request.
	packages int
	// found lists changes that each make the problem solvable. out lists them as
	// suggestions.
	found []change
	out   []Suggestion
}

// findChanges tries changes to each specification that is part of the conflict.
func (a *adviser) findChanges(ctx context.Context) {
	for _, step := range []func(context.Context, spec.MatchSpec, int){a.names, a.channels, a.loosen, a.tryRemove} {
		for at, wanted := range a.problem.Specs[:len(a.problem.Specs)-a.problem.Fixed] {
			if a.isPart(wanted) {
				step(ctx, wanted, at)
			}
		}
	}
}

func (a *adviser) isPart(wanted spec.MatchSpec) bool {
	return slices.ContainsFunc(a.conflict.specs, func(s spec.MatchSpec) bool { return s.String() == wanted.String() })
}

// search returns a search for a changed request, or nil if no tries are left.
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

// try records a change if it makes the request solvable.
func (a *adviser) try(ctx context.Context, c change) bool {
	if len(a.found) >= a.most {
		return false
	}
	p := c.of(a.problem)
	s := a.search(ctx, p)
	if s == nil || s.solve() != nil || !c.pin(&p, s.solution()) {
		return false
	}
	a.found = append(a.found, c)
	a.suggest(p, c)
	return true
}

// suggest adds a suggestion of changes that lead to p.
func (a *adviser) suggest(p Problem, changes ...change) {
	var s Suggestion
	words := make([]string, len(changes))
	for i := range changes {
		words[i] = changes[i].instruction()
	}
	if last := len(words) - 1; last > 0 {
		words[last] = "and " + words[last]
	}
	s.Change = strings.Join(words, ", ")
	for _, wanted := range p.Specs[:len(p.Specs)-p.Fixed] {
		s.Packages = append(s.Packages, wanted.String())
	}
	if len(p.Channels) != len(a.problem.Channels) {
		for i := range p.Channels {
			s.Channels = append(s.Channels, p.Channels[i].Name)
		}
	}
	a.out = append(a.out, s)
}

// names tries similar names for a missing name, and other channels that have it.
func (a *adviser) names(ctx context.Context, wanted spec.MatchSpec, at int) {
	i := slices.IndexFunc(a.conflict.Missing, func(m Missing) bool { return m.Name == wanted.Name })
	if i < 0 || a.problem.Names == nil {
		return
	}
	for _, c := range a.problem.Names.InOtherChannels(wanted.Name) {
		if a.try(ctx, change{added: &c}) {
			break
		}
	}
	nearest := a.conflict.Missing[i].Nearest
	for _, name := range nearest[:min(2, len(nearest))] {
		meant := wanted
		meant.Name = name
		a.try(ctx, change{at: at, was: wanted, spec: meant})
	}
}

// channels tries the channels after the first one that has a name, which strict priority
// ignores.
func (a *adviser) channels(ctx context.Context, wanted spec.MatchSpec, at int) {
	if wanted.Channel != "" || a.problem.Flexible || len(a.problem.Channels) < 2 {
		return
	}
	for _, c := range a.problem.Channels[1:] {
		from := wanted
		from.Channel = c.Name
		if a.try(ctx, change{at: at, was: wanted, spec: from}) {
			return
		}
	}
}

// loosen tries a specification with one bound removed, then the name alone with the
// resulting version.
func (a *adviser) loosen(ctx context.Context, wanted spec.MatchSpec, at int) {
	if bounds := wanted.Version.Without(); len(bounds) > 1 {
		for _, v := range bounds {
			fewer := wanted
			fewer.Version = v
			if a.try(ctx, change{at: at, was: wanted, spec: fewer}) {
				return
			}
		}
	}
	alone := spec.MatchSpec{Name: wanted.Name}
	if alone.String() != wanted.String() && !a.isDuplicate(wanted.Name) {
		a.try(ctx, change{at: at, was: wanted, spec: alone, isLoose: true})
	}
}

func (a *adviser) isDuplicate(name string) bool {
	n := 0
	for _, s := range a.problem.Specs {
		if s.Name == name {
			n++
		}
	}
	return n > 1
}

// tryRemove tries to remove a package if no better change was found.
func (a *adviser) tryRemove(ctx context.Context, wanted spec.MatchSpec, at int) {
	if len(a.found) == 0 && a.packages > 1 {
		a.try(ctx, change{at: at, was: wanted, isLeftOut: true})
	}
}
