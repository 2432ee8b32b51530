package solver

import (
	"slices"

	"slipway.dev/services/conda/spec"
)

// A change is one modification of a request that makes it solvable.
type change struct {
	// at is the index of the specification that changes, was its old value and spec its new
	// one.
	at        int
	was, spec spec.MatchSpec
	// isLoose is set if spec is only a name, whose solved version is to be included in the
	// suggestion.
	isLoose bool
	// isLeftOut is set if the specification is removed.
	isLeftOut bool
	// added is an additional channel, which excludes any other modification; nil for none.
	added *Channel
}

// of returns the problem with the change applied.
func (c *change) of(p Problem) Problem {
	switch {
	case c.added != nil:
		p.Channels = append(slices.Clip(p.Channels), *c.added)
	case c.isLeftOut:
		p.Specs = slices.Concat(p.Specs[:c.at], p.Specs[c.at+1:])
	default:
		p.Specs = slices.Clone(p.Specs)
		p.Specs[c.at] = c.spec
	}
	return p
}

// pin replaces a loose specification with the version that it has in a solution of p,
// both in the change and in p. It returns false if the solution has no version that can be
// requested.
func (c *change) pin(p *Problem, in *Solution) bool {
	if !c.isLoose {
		return true
	}
	chosen := slices.IndexFunc(in.Records, func(r spec.Record) bool { return r.Name == c.spec.Name })
	at := slices.IndexFunc(p.Specs, func(m spec.MatchSpec) bool { return m.String() == c.spec.String() })
	if chosen < 0 || at < 0 {
		return false
	}
	exact, err := spec.ParseVersionSpec("==" + in.Records[chosen].Version)
	if err != nil {
		return false
	}
	c.spec.Version = exact
	p.Specs = slices.Clone(p.Specs)
	p.Specs[at] = c.spec
	return true
}

// instruction returns the change as an instruction to the user.
func (c *change) instruction() string {
	switch {
	case c.added != nil:
		return "add the channel " + c.added.Name
	case c.isLeftOut:
		return "leave out " + c.was.String()
	case c.spec.Channel != c.was.Channel && c.spec.Channel != "":
		return "take " + c.spec.Name + " from " + c.spec.Channel + ": " + c.spec.String()
	}
	return "ask for " + c.spec.String() + " instead of " + c.was.String()
}
