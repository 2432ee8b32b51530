package solver

import (
	"slices"
	"strings"
)

// A path is the sequence of steps from the request to a node.
type path []*node

func (p path) last() *node { return p[len(p)-1] }

// text returns a path in words: `a 1 needs b >=2, and b 2 needs c >=3`.
func (p path) text() string {
	if len(p) == 1 {
		return p[0].Text
	}
	words := make([]string, 0, len(p))
	for _, n := range p[1:] {
		words = append(words, n.Text)
	}
	return strings.Join(words, ", and ")
}

// summary returns one sentence: the path to a missing name or virtual package, or the two
// paths that require incompatible versions of a package.
func summary(roots []*node, c *Conflict) string {
	var ends, demands []path
	for _, n := range roots {
		collect(path{n}, &ends, &demands)
	}
	if text := deadEnd(ends); text != "" {
		return capital(text)
	}
	if text := contest(demands); text != "" {
		return capital(text)
	}
	return capital(strings.Join(c.Specs, " and ") + " cannot be installed together")
}

// collect appends the paths that end without a match to ends, and those that require a
// package to demands.
func collect(p path, ends, demands *[]path) {
	n := p.last()
	switch n.Kind {
	case "asked", "needs", "bars":
		*demands = append(*demands, slices.Clone(p))
	default:
		*ends = append(*ends, slices.Clone(p))
	}
	for _, b := range n.because {
		collect(append(p, b), ends, demands)
	}
}

// deadEnd returns a sentence for the shortest path that ends without a match.
func deadEnd(ends []path) string {
	if len(ends) == 0 {
		return ""
	}
	p := slices.MinFunc(ends, func(a, b path) int { return len(a) - len(b) })
	end, before := p.last(), p[:len(p)-1]
	if len(before) == 1 {
		return end.Text
	}
	return before.text() + ", but " + end.Text + otherVersionsNote(before)
}

// contest returns a sentence for the shortest paths to two incompatible requirements of one
// package.
func contest(demands []path) string {
	var best [2]path
	for i, a := range demands {
		for _, b := range demands[i+1:] {
			if !disjoint(a.last(), b.last()) || alternatives(a, b) {
				continue
			}
			if best[0] == nil || len(a)+len(b) < len(best[0])+len(best[1]) {
				best = [2]path{a, b}
			}
		}
	}
	a, b := best[0], best[1]
	if a == nil {
		return ""
	}
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a) == 1 {
		return "you asked for " + a[0].Spec + " and for " + b[0].Spec + ", and no " + a[0].want.pkg.name + " is both"
	}
	return a.text() + ", but " + b.text() + otherVersionsNote(a, b)
}

// alternatives reports whether two paths diverge at different versions of a package, only
// one of which can be chosen.
func alternatives(a, b path) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i > 0 && a[i].edge == b[i].edge
		}
	}
	return false
}

// disjoint reports whether no record satisfies both requirements.
func disjoint(a, b *node) bool {
	if a.want.pkg != b.want.pkg || (a.Kind == "bars" && b.Kind == "bars") {
		return false
	}
	for i, fits := range a.want.fits {
		if fits && b.want.fits[i] {
			return false
		}
	}
	return true
}

// otherVersionsNote returns a note that other versions on the paths do not help.
func otherVersionsNote(paths ...path) string {
	var names []string
	for _, p := range paths {
		for i, n := range p {
			if n.hasMore && i > 0 {
				name := p[i-1].want.pkg.name
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; no other " + strings.Join(names, " or ") + " fits either"
}

func capital(s string) string {
	if strings.HasPrefix(s, "you ") || strings.HasPrefix(s, "no ") || strings.HasPrefix(s, "every ") || strings.HasPrefix(s, "the ") {
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return s
}
