package solver

import (
	"strings"

	"slipway.dev/services/internal/conda"
)

// Conflict says why nothing fits what was asked for. It is an error whose text is for
// the user, and data: its JSON is the `conflict` of an answer.
type Conflict struct {
	// Specs are the request's specifications that cannot hold together: with any one of
	// them gone the rest can, unless the search for the smallest set ran out of time.
	Specs []string `json:"specs"`
	// Summary is one sentence: what cannot be, and why.
	Summary string `json:"summary"`
	// Reasons has one tree for each of Specs.
	Reasons []Reason `json:"reasons"`
	// Missing are names that are not in the channels.
	Missing []Missing `json:"missing,omitempty"`

	// specs are Specs, to suggest from, and library what was read to find them.
	specs   []conda.MatchSpec
	library *library
}

// Reason is one step on the way to a conflict.
type Reason struct {
	// Kind is why this step is taken, or leads no further:
	//   - "asked": the request asks for Spec;
	//   - "needs": Package needs Spec;
	//   - "bars": Package must not stand beside anything of that name that is not Spec;
	//   - "unnamed": no channel has the name of Spec;
	//   - "unfit": there are records of the name, and none fits Spec;
	//   - "machine": the machine does not have Spec;
	//   - "unread": Spec cannot be read, or not be solved yet.
	Kind string `json:"kind"`
	// Package is who says so, with its versions, e.g. "samtools 1.20"; "" for the request.
	Package string `json:"package,omitempty"`
	// Spec is what is asked for, e.g. "htslib >=1.20".
	Spec string `json:"spec"`
	// Text is the step in words.
	Text string `json:"text"`
	// Because is what follows from it: the needs of those that fit Spec, as far as they are
	// part of the conflict.
	Because []Reason `json:"because,omitempty"`
}

// Missing is a name that no channel of the request has.
type Missing struct {
	Name string `json:"name"`
	// Nearest are names that look like it, best first; Elsewhere are channels that have it.
	Nearest   []string `json:"nearest,omitempty"`
	Elsewhere []string `json:"elsewhere,omitempty"`
}

// Error is the summary.
func (c *Conflict) Error() string { return c.Summary }

// Names says whether a package is part of the conflict.
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

// Text is the whole in lines: the summary, the tree where it says more, and what the
// missing names could have been.
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
