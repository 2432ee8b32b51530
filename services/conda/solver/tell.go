package solver

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
)

const (
	// maxKinds is how many different needs of one package are told, maxNodes how many
	// steps in all, and maxSteps how many after each other.
	maxKinds = 5
	maxNodes = 200
	maxSteps = 20
)

// node is a Reason that is being made.
type node struct {
	Reason
	want *want
	// edge is the dependency that led here; zero for the request.
	edge    edge
	because []*node
	hasMore bool // other versions need others
}

// teller makes the tree of a conflict from its dependencies.
type teller struct {
	*search
	edges []edge
	nodes int
}

// tell makes the conflict of specifications and dependencies.
func tell(ctx context.Context, p *Problem, edges []edge) error {
	t := &teller{search: newSearch(ctx, p), edges: edges}
	c := &Conflict{specs: p.Specs, Reasons: []Reason{}}
	var roots []*node
	for _, spec := range p.Specs {
		w, err := t.wantSpec(spec)
		if err != nil {
			return err
		}
		n := &node{want: w, Reason: Reason{Kind: "asked", Spec: spec.String(), Text: "you asked for " + spec.String()}}
		if err := t.grow(n, nil); err != nil {
			return err
		}
		roots = append(roots, n)
		c.Specs = append(c.Specs, spec.String())
	}
	c.Missing = t.missing(roots)
	c.Summary = summary(roots, c)
	for _, n := range roots {
		c.Reasons = append(c.Reasons, n.reason())
	}
	return c
}

func (n *node) reason() Reason {
	out := n.Reason
	for _, b := range n.because {
		out.Because = append(out.Because, b.reason())
	}
	return out
}

// grow adds what follows from a want: why nothing fits, or what those that fit need.
// on are the names on the way here.
func (t *teller) grow(n *node, on []string) error {
	name := n.want.pkg.name
	if len(n.want.matching) == 0 {
		leaf, err := t.leaf(n.want)
		if err != nil {
			return err
		}
		n.because = append(n.because, leaf)
		return nil
	}
	if slices.Contains(on, name) || len(on) == maxSteps {
		return nil
	}
	on = append(slices.Clip(on), name)
	for _, e := range t.edges {
		if e.from != name {
			continue
		}
		if err := t.follow(n, e, on); err != nil {
			return err
		}
	}
	return nil
}

// follow adds one dependency of those that fit, a node for each text of it.
func (t *teller) follow(n *node, e edge, on []string) error {
	groups, texts := map[string][]int32{}, []string(nil)
	for _, i := range n.want.matching {
		r := n.want.pkg.records[i]
		list := r.Depends
		if e.bars {
			list = r.Constrains
		}
		for _, text := range list {
			if nameOf(text) != e.to {
				continue
			}
			if groups[text] == nil {
				texts = append(texts, text)
			}
			groups[text] = append(groups[text], i)
		}
	}
	for at, text := range texts {
		if at == maxKinds || t.nodes == maxNodes {
			n.hasMore = true
			break
		}
		t.nodes++
		w, err := t.search.want(text)
		if err != nil {
			return err
		}
		child := &node{want: w, edge: e, hasMore: len(texts) > 1, Reason: step(n.want.pkg, groups[text], specText(w, text), e.bars)}
		n.because = append(n.because, child)
		if err := t.grow(child, on); err != nil {
			return err
		}
	}
	return nil
}

// step is what records of a package ask for.
func step(p *pkg, records []int32, spec string, bars bool) Reason {
	name, many := label(p, records)
	kind, verb := "needs", " needs "
	switch {
	case bars && many:
		kind, verb = "bars", " go only with "
	case bars:
		kind, verb = "bars", " goes only with "
	case many:
		verb = " need "
	}
	return Reason{Kind: kind, Package: name, Spec: spec, Text: name + verb + spec}
}

// specText is a dependency as it is best read.
func specText(w *want, text string) string {
	if w.unread != nil {
		return text
	}
	return w.spec.String()
}

// label names a package with its versions, e.g. "samtools 1.20" or "samtools 1.18 to
// 1.20".
func label(p *pkg, records []int32) (name string, many bool) {
	var at []int32
	for _, i := range records {
		if !slices.Contains(at, p.version[i]) {
			at = append(at, p.version[i])
		}
	}
	slices.Sort(at)
	first, last := at[0], at[len(at)-1]
	switch n := len(at); {
	case n == 1:
		return p.name + " " + p.versions[first].String(), false
	case n == 2:
		return p.name + " " + p.versions[first].String() + " and " + p.versions[last].String(), true
	case int(last-first) == n-1:
		return p.name + " " + p.versions[first].String() + " to " + p.versions[last].String(), true
	default:
		return p.name + " " + p.versions[last].String() + " and " + strconv.Itoa(n-1) + " others", true
	}
}

// leaf says why nothing fits a want.
func (t *teller) leaf(w *want) (*node, error) {
	n := &node{want: w, Reason: Reason{Spec: w.spec.String()}}
	name := w.pkg.name
	switch {
	case w.unread != nil:
		n.Kind, n.Spec, n.Text = "unread", name, "that cannot be read"
		if errors.Is(w.unread, fault.Unsupported) {
			n.Text = "dependencies under a condition, and extras, cannot be solved yet"
		}
	case strings.HasPrefix(name, "__"):
		n.Kind, n.Text = "machine", t.machine(w)
	case len(w.pkg.records) > 0:
		newest := w.pkg.versions[len(w.pkg.versions)-1].String()
		n.Kind, n.Text = "unfit", "no "+name+" fits "+w.spec.String()+": the newest is "+newest
		if w.pkg.hasVersion(w.spec.Version) {
			n.Text = "no " + name + " fits " + w.spec.String() + ": its version is there, but not that build or channel"
		}
	default:
		text, err := t.absence(w)
		if err != nil {
			return nil, err
		}
		n.Kind, n.Text = "unnamed", text
	}
	return n, nil
}

func (p *pkg) hasVersion(spec conda.VersionSpec) bool {
	return slices.ContainsFunc(p.versions, spec.Match)
}

func (t *teller) machine(w *want) string {
	if len(w.pkg.records) == 0 {
		return "the machine has no " + w.pkg.name
	}
	r := w.pkg.records[0]
	return "the machine has " + conda.VirtualPackage{Name: r.Name, Version: r.Version, Build: r.Build}.String()
}

// absence says why there are no records of a name.
func (t *teller) absence(w *want) (string, error) {
	name := w.pkg.name
	if !t.problem.ExcludeNewer.IsZero() {
		for i := range t.problem.Channels {
			all, err := recordsOf(&t.problem.Channels[i], name)
			if err != nil {
				return "", err
			}
			if len(all) > 0 {
				return "every " + name + " is newer than " + t.problem.ExcludeNewer.UTC().Format("2006-01-02 15:04 MST"), nil
			}
		}
	}
	return "no package is named " + name + " in " + channelNames(t.problem.Channels), nil
}

func channelNames(channels []Channel) string {
	names := make([]string, len(channels))
	for i := range channels {
		names[i] = channels[i].Name
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// missing looks for what missing names could have been.
func (t *teller) missing(roots []*node) []Missing {
	var out []Missing
	var walk func(n *node)
	walk = func(n *node) {
		name := n.want.pkg.name
		if n.Kind == "unnamed" && !slices.ContainsFunc(out, func(m Missing) bool { return m.Name == name }) {
			m := Missing{Name: name}
			if names := t.problem.Names; names != nil && len(out) < maxKinds {
				m.Nearest = names.Nearest(name)
				for _, c := range names.Elsewhere(name) {
					m.Elsewhere = append(m.Elsewhere, c.Name)
				}
			}
			n.Text += m.hint()
			out = append(out, m)
		}
		for _, b := range n.because {
			walk(b)
		}
	}
	for _, n := range roots {
		walk(n)
	}
	return out
}

// hint is what the name could have been, for behind a sentence.
func (m *Missing) hint() string {
	switch {
	case len(m.Elsewhere) > 0:
		return "; it is in " + m.Elsewhere[0] + ", which is not among your channels"
	case len(m.Nearest) > 0:
		return ": did you mean " + strings.Join(m.Nearest[:min(3, len(m.Nearest))], ", ") + "?"
	}
	return ""
}
