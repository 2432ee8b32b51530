package solver

import (
	"strings"

	"slipway.dev/services/conda/spec"
)

// A Conflict explains why a request has no solution. As an error, its text is for users;
// its JSON is the `conflict` of a response.
type Conflict struct {
	// Specs is a minimal unsatisfiable set of the request's specifications: without any one
	// of them, the others are satisfiable. It may be larger if the search for a minimal set
	// ran out of time.
	Specs []string `json:"specs"`
	// Summary describes the conflict and its cause in one sentence.
	Summary string `json:"summary"`
	// Reasons has one tree for each of Specs.
	Reasons []Reason `json:"reasons"`
	// Missing lists the names that do not exist in the channels.
	Missing []Missing `json:"missing,omitempty"`

	// specs holds the parsed Specs, for Suggest. library holds the records that were loaded
	// to find them.
	specs   []spec.MatchSpec
	library *library
}

// A Reason is one step that leads to a conflict.
type Reason struct {
	// Kind is the type of the step, or the reason why it ends:
	//   - "asked": the request requires Spec;
	//   - "needs": Package depends on Spec;
	//   - "bars": Package constrains packages of that name to Spec;
	//   - "unnamed": no channel has the name of Spec;
	//   - "unfit": records of the name exist, but none matches Spec;
	//   - "machine": the machine does not provide Spec;
	//   - "unread": Spec is invalid or not supported.
	Kind string `json:"kind"`
	// Package is the package with the dependency, with its versions, e.g. "samtools 1.20";
	// "" for the request.
	Package string `json:"package,omitempty"`
	// Spec is the required specification, e.g. "htslib >=1.20".
	Spec string `json:"spec"`
	// Text describes the step.
	Text string `json:"text"`
	// Because lists the steps that follow: the dependencies of the records that match Spec,
	// if they are part of the conflict.
	Because []Reason `json:"because,omitempty"`
}

// A Missing is a name that does not exist in the channels of the request.
type Missing struct {
	Name string `json:"name"`
	// Nearest lists similar names, best first. InOtherChannels lists other channels that have the
	// name.
	Nearest         []string `json:"nearest,omitempty"`
	InOtherChannels []string `json:"elsewhere,omitempty"`
	// Platforms lists other platforms for which the channels have the name. Version is the
	// newest version on these platforms, or "" if unknown.
	Platforms []string `json:"platforms,omitempty"`
	Version   string   `json:"version,omitempty"`
}

// Error returns the summary.
func (c *Conflict) Error() string { return c.Summary }

// Names reports whether a package is part of the conflict.
func (c *Conflict) Names(name string) bool {
	for _, r := range c.Reasons {
		if r.names(name) {
			return true
		}
	}
	return false
}

func (r *Reason) names(name string) bool {
	if nameOf(r.Spec) == name {
		return true
	}
	for i := range r.Because {
		if r.Because[i].names(name) {
			return true
		}
	}
	return false
}

// Text returns the summary and the tree of reasons, one per line, indented. The reasons
// contain the alternatives for missing names.
func (c *Conflict) Text() string {
	lines := []string{c.Summary}
	for i := range c.Reasons {
		lines = c.Reasons[i].lines(lines, "")
	}
	return strings.Join(lines, "\n")
}

func (r *Reason) lines(lines []string, indent string) []string {
	lines = append(lines, indent+"- "+r.Text)
	for i := range r.Because {
		lines = r.Because[i].lines(lines, indent+"  ")
	}
	return lines
}
