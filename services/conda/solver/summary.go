package solver

import (
	"slices"
	"strings"
)

// path is the steps from the request to one of them.
type path []*node

func (p path) last() *node { return p[len(p)-1] }

// said is a path in words: `a 1 needs b >=2, and b 2 needs c >=3`.
func (p path) said() string {
	if len(p) == 1 {
		return p[0].Text
	}
	words := make([]string, 0, len(p))
	for _, n := range p[1:] {
		words = append(words, n.Text)
	}
	return strings.Join(words, ", and ")
}

// summary is one sentence: the way to a name or machine that is not there, or the two
// ways to a package that cannot be both.
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

// collect finds the paths that end in nothing, and those that ask for something.
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

// deadEnd says the shortest of the ways into nothing.
func deadEnd(ends []path) string {
	if len(ends) == 0 {
		return ""
	}
	p := slices.MinFunc(ends, func(a, b path) int { return len(a) - len(b) })
	end, before := p.last(), p[:len(p)-1]
	if len(before) == 1 {
		return end.Text
	}
	return before.said() + ", but " + end.Text + others(before)
}

// contest says two demands for one package that nothing fits both of, by the shortest
// ways.
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
	return a.said() + ", but " + b.said() + others(a, b)
}

// alternatives says whether two ways part at one package's versions: only one of them
// has to be gone.
func alternatives(a, b path) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i > 0 && a[i].edge == b[i].edge
		}
	}
	return false
}

// disjoint says whether two demands for one package leave no record.
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

// others says that other versions on the way do not help.
func others(paths ...path) string {
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
