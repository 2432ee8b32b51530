package solver

import (
	"slices"
	"strconv"

	"slipway.dev/services/conda/spec"
)

const (
	// maxKinds limits the different dependencies shown for one package, maxNodes the steps
	// in total, and maxSteps the depth.
	maxKinds = 5
	maxNodes = 200
	maxSteps = 20
)

// A node is a Reason under construction.
type node struct {
	Reason
	want *want
	// edge is the dependency that led here; the zero value for the request.
	edge    edge
	because []*node
	hasMore bool // other versions have other dependencies
}

// A treeBuilder builds the tree of a conflict from its dependencies.
type treeBuilder struct {
	*search
	edges []edge
	nodes int
}

// newConflict returns the conflict between specifications and dependencies.
func newConflict(s *search, edges []edge) error {
	t := &treeBuilder{search: s, edges: edges}
	c := &Conflict{specs: s.specs, Reasons: []Reason{}, library: s.library}
	var roots []*node
	for _, wanted := range s.specs {
		w, err := t.wantSpec(wanted)
		if err != nil {
			return err
		}
		n := &node{want: w, Reason: Reason{Kind: "asked", Spec: wanted.String(), Text: "you asked for " + wanted.String()}}
		if err := t.expand(n, nil); err != nil {
			return err
		}
		roots = append(roots, n)
		c.Specs = append(c.Specs, wanted.String())
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

// expand adds what follows from a want: why no record matches it, or the dependencies of
// those that do. on lists the names on the path to the node.
func (t *treeBuilder) expand(n *node, on []string) error {
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

// follow adds one dependency of the matching records, with a node for each way in which it
// is written.
func (t *treeBuilder) follow(n *node, e edge, on []string) error {
	groups, texts, err := t.variants(n, e)
	if err != nil {
		return err
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
		child := &node{want: w, edge: e, hasMore: len(texts) > 1, Reason: step(n.want.pkg.candidates, groups[text], specText(w, text), e.bars)}
		n.because = append(n.because, child)
		if err := t.expand(child, on); err != nil {
			return err
		}
	}
	return nil
}

// variants returns the ways in which the matching records write one dependency, in order of
// occurrence, and the records by them.
func (t *treeBuilder) variants(n *node, e edge) (groups map[string][]int32, texts []string, _ error) {
	groups = map[string][]int32{}
	for at, i := range n.want.matching {
		if at%checkEvery == 0 {
			if err := t.over(); err != nil {
				return nil, nil, err
			}
		}
		for _, text := range e.listed(n.want.pkg.records[i]) {
			if nameOf(text) != e.to {
				continue
			}
			if groups[text] == nil {
				texts = append(texts, text)
			}
			groups[text] = append(groups[text], i)
		}
	}
	return groups, texts, nil
}

// listed returns the dependencies or constraints of a record, by the edge's kind.
func (e edge) listed(r *spec.Record) []string {
	if e.bars {
		return r.Constrains
	}
	return r.Depends
}

// step returns the Reason for a dependency of records of a package.
func step(p *candidates, records []int32, wanted string, bars bool) Reason {
	name, many := label(p, records)
	kind, verb := "needs", " needs "
	switch {
	case bars && many:
		kind, verb = "bars", " only allow "
	case bars:
		kind, verb = "bars", " only allows "
	case many:
		verb = " need "
	}
	return Reason{Kind: kind, Package: name, Spec: wanted, Text: name + verb + wanted}
}

// specText returns a dependency in its most readable form.
func specText(w *want, text string) string {
	if w.unread != "" {
		return text
	}
	return w.spec.String()
}

// label returns a package with its versions, e.g. "samtools 1.20" or "samtools 1.18 to
// 1.20".
func label(p *candidates, records []int32) (name string, many bool) {
	at := make([]int32, len(records))
	for n, i := range records {
		at[n] = p.version[i]
	}
	slices.Sort(at)
	at = slices.Compact(at)
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
