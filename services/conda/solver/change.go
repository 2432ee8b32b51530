package solver

import (
	"slices"

	"slipway.dev/services/internal/conda"
)

// change is one step from a request to one that can be.
type change struct {
	// at is the index of the specification that changes, and was what it is; spec takes its
	// place.
	at        int
	was, spec conda.MatchSpec
	// isLoose says that spec is a name, whose version is to be told when it is known.
	isLoose bool
	// isLeftOut says that nothing takes its place.
	isLeftOut bool
	// added is a channel to ask as well, and then nothing else changes; nil for none.
	added *Channel
}

// of is a request with the change.
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

// settle gives a loose specification the version that it has in a solution of p, there
// and in p. false where it has none that can be asked for.
func (c *change) settle(p *Problem, in *Solution) bool {
	if !c.isLoose {
		return true
	}
	chosen := slices.IndexFunc(in.Records, func(r conda.Record) bool { return r.Name == c.spec.Name })
	at := slices.IndexFunc(p.Specs, func(m conda.MatchSpec) bool { return m.String() == c.spec.String() })
	if chosen < 0 || at < 0 {
		return false
	}
	exact, err := conda.ParseVersionSpec("==" + in.Records[chosen].Version)
	if err != nil {
		return false
	}
	c.spec.Version = exact
	p.Specs = slices.Clone(p.Specs)
	p.Specs[at] = c.spec
	return true
}

// words say what to do.
func (c *change) words() string {
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
