package solver

import (
	"slices"
	"strconv"

	"slipway.dev/services/internal/conda"
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
func tell(s *search, edges []edge) error {
	t := &teller{search: s, edges: edges}
	c := &Conflict{specs: s.specs, Reasons: []Reason{}, library: s.library}
	var roots []*node
	for _, spec := range s.specs {
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
	groups, texts, err := t.wordings(n, e)
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
		child := &node{want: w, edge: e, hasMore: len(texts) > 1, Reason: step(n.want.pkg.shelf, groups[text], specText(w, text), e.bars)}
		n.because = append(n.because, child)
		if err := t.grow(child, on); err != nil {
			return err
		}
	}
	return nil
}

// wordings are the texts of one dependency of those that fit, in the order in which they
// are met, and by them the records that have it so.
func (t *teller) wordings(n *node, e edge) (groups map[string][]int32, texts []string, _ error) {
	groups = map[string][]int32{}
	for at, i := range n.want.matching {
		if at%often == 0 {
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

// listed are the dependencies of the edge's kind.
func (e edge) listed(r *conda.Record) []string {
	if e.bars {
		return r.Constrains
	}
	return r.Depends
}

// step is what records of a package ask for.
func step(p *shelf, records []int32, spec string, bars bool) Reason {
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
	if w.unread != "" {
		return text
	}
	return w.spec.String()
}

// label names a package with its versions, e.g. "samtools 1.20" or "samtools 1.18 to
// 1.20".
func label(p *shelf, records []int32) (name string, many bool) {
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
