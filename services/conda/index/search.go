package index

import (
	"bytes"
	"iter"
	"sort"
	"strings"
)

// Names are all names, sorted.
func (x *Index) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range x.count {
			if !yield(string(x.name(i))) {
				return
			}
		}
	}
}

// Rank says how near a name is to what somebody looks for: the lower, the nearer.
type Rank int

// The ranks, in the order of a search's answer.
const (
	Exact Rank = iota
	Prefix
	Within
	// Similar is a name that one insertion, deletion, change, or swap of neighbours makes
	// out of what was asked for.
	Similar
)

// Match is a name that was found.
type Match struct {
	Name string
	Rank Rank
}

// Search finds names: the one that is text, those that begin with it, those that hold
// it, and those that are almost it; sorted by rank, then by name. The text is taken in
// lower case; an empty one finds all names as prefixes.
func (x *Index) Search(text string) []Match {
	text = strings.ToLower(text)
	var found []Match
	for i := range x.count {
		if rank, ok := rank([]byte(text), x.name(i)); ok {
			found = append(found, Match{string(x.name(i)), rank})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Rank < found[j].Rank })
	return found
}

func rank(text, name []byte) (Rank, bool) {
	switch {
	case bytes.Equal(text, name):
		return Exact, true
	case bytes.HasPrefix(name, text):
		return Prefix, true
	case bytes.Contains(name, text):
		return Within, true
	case near(text, name):
		return Similar, true
	}
	return 0, false
}

// near says whether one edit makes a into b. Of texts of fewer than three letters
// everything short would be near.
func near(a, b []byte) bool {
	if len(a) < 3 || len(b)-len(a) > 1 || len(a)-len(b) > 1 {
		return false
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch {
	case len(a) < len(b):
		return bytes.Equal(a, b[1:])
	case len(a) > len(b):
		return bytes.Equal(a[1:], b)
	case len(a) == 0 || bytes.Equal(a[1:], b[1:]):
		return true
	}
	return len(a) > 1 && a[0] == b[1] && a[1] == b[0] && bytes.Equal(a[2:], b[2:])
}

// Near are the names that one edit makes out of text, sorted.
func (x *Index) Near(text string) []string {
	var out []string
	for i := range x.count {
		if name := x.name(i); near([]byte(text), name) {
			out = append(out, string(name))
		}
	}
	return out
}

// Has says whether there is a name.
func (x *Index) Has(name string) bool {
	_, ok := x.find(name)
	return ok
}
