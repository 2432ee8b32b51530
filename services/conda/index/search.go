package index

import (
	"bytes"
	"runtime"
	"strings"
)

// A Rank is how similar a name is to the searched string; lower ranks are more similar.
type Rank int

// The ranks, in the order of search results.
const (
	Exact Rank = iota
	Prefix
	Within
	// Similar is a name at edit distance one: an insertion, a deletion, a substitution or a
	// swap of neighbouring characters.
	Similar
)

// Ranks is the number of ranks.
const Ranks = int(Similar) + 1

// A Search iterates over the names of an index that match a string, sorted by name. It
// holds one name at a time and must not be used concurrently.
type Search struct {
	index *Index
	text  []byte
	at    int
	name  []byte
	rank  Rank
	// among lists the indexes in which dependents are counted.
	among []*Index
}

// Search returns a search for the name text, names that begin with it, names that contain
// it, and similar names. The text is converted to lower case. An empty text matches all
// names as prefixes. Dependents are counted in the indexes in among.
func (x *Index) Search(text string, among ...*Index) *Search {
	return &Search{index: x, text: []byte(strings.ToLower(text)), among: among}
}

// Next advances to the next match and reports whether there is one.
func (s *Search) Next() (found bool, err error) {
	defer runtime.KeepAlive(s)
	defer unreadable(&err)()
	for s.at < s.index.count {
		name := s.index.name(s.at)
		s.at++
		if rank, ok := rank(s.text, name); ok {
			s.name, s.rank = append(s.name[:0], name...), rank
			return true, nil
		}
	}
	return false, nil
}

// Name returns the name of the match. It is valid until the next call of Next.
func (s *Search) Name() []byte { return s.name }

// Rank returns the rank of the match.
func (s *Search) Rank() Rank { return s.rank }

// Dependents counts the records that depend on the match, which takes a binary search in each
// index.
func (s *Search) Dependents() (n int, err error) {
	defer runtime.KeepAlive(s)
	defer unreadable(&err)()
	for _, x := range s.among {
		n += x.dependents(s.name)
	}
	return n, nil
}

func rank(text, name []byte) (Rank, bool) {
	switch {
	case bytes.Equal(text, name):
		return Exact, true
	case bytes.HasPrefix(name, text):
		return Prefix, true
	case bytes.Contains(name, text):
		return Within, true
	case isOneEdit(text, name):
		return Similar, true
	}
	return 0, false
}

// isOneEdit reports whether one edit turns a into b. It returns false for strings of fewer than
// three characters, which would match too much.
func isOneEdit(a, b []byte) bool {
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

// Near returns up to most names at edit distance one of text, sorted.
func (x *Index) Near(text string, most int) (out []string, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	for i := 0; i < x.count && len(out) < most; i++ {
		if name := x.name(i); isOneEdit([]byte(text), name) {
			out = append(out, string(name))
		}
	}
	return out, nil
}

// Has reports whether the index has records of a name.
func (x *Index) Has(name string) (has bool, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	_, has = x.find(name)
	if x.past == nil {
		return has, nil
	}
	list, err := x.recordsWithPast(name)
	return err == nil && len(list.records) > 0, err
}
