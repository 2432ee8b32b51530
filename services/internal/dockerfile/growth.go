package dockerfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// growth evaluates a Dockerfile with the maximum lengths of its variables in place of their
// values.
type growth struct {
	escape rune
	stages map[string]*stage
	// base is the configuration of the base image; nil if unknown.
	base *base
	// spent is the sum over the evaluated instructions.
	spent, steps, variables int
}

// stage is the state before an instruction.
type stage struct {
	lengths lengths
	// carried is the total length of all variables, which every RUN receives.
	carried int
	// dir is the length of the working directory, which relative paths extend.
	dir int
	// triggers are the ONBUILD instructions, which run in stages that are built from this one.
	triggers []string
}

func newGrowth(escape rune) *growth {
	return &growth{escape: escape, stages: map[string]*stage{}}
}

// file evaluates the stages in order: none can be built from a later one.
func (g *growth) file(stages []instructions.Stage, meta []instructions.ArgCommand) error {
	outer := &stage{lengths: newLengths()}
	for i := range meta {
		if err := g.command(outer, nil, &meta[i]); err != nil {
			return atLine(meta[i].Location(), err)
		}
	}
	for _, s := range stages {
		if err := g.stage(outer, s); err != nil {
			return atLine(s.Location, err)
		}
	}
	return nil
}

func (g *growth) stage(outer *stage, s instructions.Stage) error {
	if err := g.spend(s.SourceCode, 0, g.bound(outer, s.BaseName), g.bound(outer, s.Platform)); err != nil {
		return err
	}
	st := &stage{lengths: newLengths()}
	triggers := g.inherit(st, s.BaseName)
	if err := g.spend("", st.carried); err != nil {
		return err
	}
	for _, t := range triggers {
		if err := g.trigger(st, outer, t); err != nil {
			return err
		}
	}
	for _, c := range s.Commands {
		if err := g.command(st, outer, c); err != nil {
			return atLine(c.Location(), err)
		}
	}
	if s.Name != "" {
		g.stages[strings.ToLower(s.Name)] = st
	}
	return nil
}

// inherit copies the state of a stage's base, and returns the ONBUILD instructions of the base.
// A base whose name only the engine knows may be any stage or an image.
func (g *growth) inherit(st *stage, base string) (triggers []string) {
	_, isStage := g.stages[strings.ToLower(base)]
	if g.base != nil && (!isStage || !g.isPlain(base)) {
		g.base.start(st)
		triggers = slices.Clone(g.base.OnBuild)
	}
	for name, from := range g.stages {
		if name != strings.ToLower(base) && g.isPlain(base) {
			continue
		}
		st.lengths.add(from.lengths)
		st.carried, st.dir = max(st.carried, from.carried), max(st.dir, from.dir)
		triggers = append(triggers, from.triggers...)
	}
	return triggers
}

// isPlain reports whether a word contains nothing to expand.
func (g *growth) isPlain(word string) bool {
	return !strings.ContainsAny(word, `$"'`) && !strings.ContainsRune(word, g.escape)
}

// trigger evaluates an ONBUILD instruction of the base stage.
func (g *growth) trigger(st, outer *stage, expression string) error {
	commands, err := trigger(expression)
	if err != nil {
		return err
	}
	for _, c := range commands {
		if err := g.command(st, outer, c); err != nil {
			return err
		}
	}
	return nil
}

// command charges the expanded text of an instruction, and the variables that it carries. outer
// is the state after the ARGs before the first FROM; it is nil while these ARGs are evaluated.
func (g *growth) command(st, outer *stage, c instructions.Command) error {
	text := source(c)
	switch c := c.(type) {
	case *instructions.ArgCommand:
		return g.set(st, text, g.arguments(st, outer, c))
	case *instructions.EnvCommand:
		return g.set(st, text, g.pairs(st, c.Env))
	case *instructions.LabelCommand:
		return g.set(&stage{lengths: newLengths()}, text, g.pairs(st, c.Labels))
	case *instructions.OnbuildCommand:
		st.triggers = append(st.triggers, c.Expression)
		return g.spend(text, len(text))
	case *instructions.RunCommand:
		return g.spend(text, st.carried+st.dir+len(text), g.bound(st, flags(text)))
	case *instructions.WorkdirCommand:
		n := g.bound(st, c.Path)
		if !strings.HasPrefix(c.Path, "/") {
			n += st.dir + 1
		}
		st.dir = min(n, huge)
		return g.spend(text, n, g.bound(st, c.Path))
	case *instructions.ExposeCommand:
		return g.expose(st, c)
	case *instructions.AddCommand:
		return g.copies(st, text, c.SourceContents)
	case *instructions.CopyCommand:
		return g.copies(st, text, c.SourceContents)
	case *instructions.UserCommand, *instructions.VolumeCommand, *instructions.StopSignalCommand:
		return g.spend(text, 0, g.bound(st, text))
	}
	return g.spend(text, len(text)) // nothing is expanded
}

// source returns an instruction as it was written, without here-documents.
func source(c instructions.Command) string {
	if s, ok := c.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// flags returns the flags that follow an instruction's name. Of a RUN, the engine expands only
// its flags.
func flags(text string) string {
	var out []string
	for _, w := range strings.Fields(text)[1:] {
		if !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, `"`) && !strings.HasPrefix(w, `'`) {
			break
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// pair is a variable and the maximum length of its value. The name may contain variables that
// only the engine knows.
type pair struct {
	name  string
	bound int
}

func (g *growth) arguments(st, outer *stage, c *instructions.ArgCommand) []pair {
	var out []pair
	for _, a := range c.Args {
		n := 0
		switch {
		case a.Value != nil:
			n = g.bound(st, *a.Value)
		case outer != nil:
			n = outer.lengths.of(a.Key)
		}
		out = append(out, pair{a.Key, n})
	}
	return out
}

// pairs returns the variables of ENV or LABEL. Each value is expanded in the state before the
// instruction.
func (g *growth) pairs(st *stage, list instructions.KeyValuePairs) []pair {
	var out []pair
	for _, kv := range list {
		out = append(out, pair{kv.Key, g.bound(st, kv.Value)})
	}
	return out
}

// set sets the lengths of variables.
func (g *growth) set(st *stage, text string, pairs []pair) error {
	all := make([]int, 0, 2*len(pairs))
	for _, p := range pairs {
		all = append(all, g.bound(st, p.name), p.bound)
	}
	for _, p := range pairs {
		st.carried = min(st.carried+st.lengths.set(p.name, p.bound, g.isPlain(p.name)), huge)
	}
	if g.variables += len(pairs); g.variables > limits.DockerfileVariables {
		return fault.Invalid.Newf("the Dockerfile sets more than %d variables and labels", limits.DockerfileVariables)
	}
	return g.spend(text, 0, all...)
}

// expose charges limits.DockerfilePortRange for each port that may expand to a range, since the
// engine lists every port of a range.
func (g *growth) expose(st *stage, c *instructions.ExposeCommand) error {
	ranges := 0
	for _, p := range c.Ports {
		if strings.ContainsAny(p, "$-") {
			ranges += limits.DockerfilePortRange
		}
	}
	text := source(c)
	return g.spend(text, ranges, g.bound(st, text))
}

func (g *growth) copies(st *stage, text string, docs []instructions.SourceContent) error {
	all, literal := []int{g.bound(st, text)}, text
	for _, d := range docs {
		literal += d.Data
		if d.Expand {
			all = append(all, g.bound(st, d.Data))
		} else {
			all = append(all, len(d.Data))
		}
	}
	return g.spend(literal, st.dir, all...)
}

// spend charges an instruction for its expanded texts and for the length that it carries. The
// expanded texts may exceed the written text by limits.DockerfileGrowth.
func (g *growth) spend(written string, carried int, expanded ...int) error {
	total := 0
	for _, n := range expanded {
		total = min(total+n, huge)
	}
	if total > len(written)+limits.DockerfileGrowth {
		return fault.Invalid.Newf("its variables expand to more than %d characters; an instruction may grow by at most %d",
			len(written)+limits.DockerfileGrowth, limits.DockerfileGrowth)
	}
	g.spent = min(g.spent+total+carried, huge)
	if g.spent > limits.DockerfileExpanded {
		return fault.Invalid.Newf("the Dockerfile expands to more than %d characters up to here; use fewer or shorter variables",
			limits.DockerfileExpanded)
	}
	if g.steps++; g.steps > limits.DockerfileInstructions {
		return fault.Invalid.Newf("the Dockerfile has more than %d instructions, with those of ONBUILD", limits.DockerfileInstructions)
	}
	return nil
}
