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
// must not be used concurrently.
type Search struct {
	index *Index
	text  []byte
	// at is the position of the name to compare next. containing is the first position from
	// there of a name that contains the text, and near are those of similar names.
	at, containing int
	near           []int
	begun          bool
	// found are matches that were read together, with their names. this is the current one.
	found []matchAt
	names []byte
	this  int
}

// Search returns a search for the name text, names that begin with it, names that contain
// it, and similar names. The text is converted to lower case. An empty text matches all
// names as prefixes.
func (x *Index) Search(text string) *Search {
	return &Search{index: x, text: []byte(strings.ToLower(text)), containing: -1}
}

// searchBatch is the number of matches that are read together.
const searchBatch = 64

// A matchAt is a match with the position of its name in the index, and its end in Search.names.
type matchAt struct {
	at, end int
	rank    Rank
}

// Next advances to the next match and reports whether there is one.
func (s *Search) Next() (found bool, err error) {
	if s.this++; s.this < len(s.found) {
		return true, nil
	}
	err = s.read()
	return err == nil && len(s.found) > 0, err
}

// read reads the next matches.
func (s *Search) read() (err error) {
	defer runtime.KeepAlive(s)
	defer unreadable(&err)()
	s.this, s.found, s.names = 0, s.found[:0], s.names[:0]
	if !s.begun {
		s.near, s.begun = s.index.near(s.text), true
	}
	for len(s.found) < searchBatch {
		i := s.candidate()
		if i >= s.index.count {
			return nil
		}
		s.at = i + 1
		name := s.index.name(i)
		if rank, ok := rank(s.text, name); ok {
			s.names = append(s.names, name...)
			s.found = append(s.found, matchAt{i, len(s.names), rank})
		}
	}
	return nil
}

// candidate returns the position of the next name that may match, or the number of names.
func (s *Search) candidate() int {
	if len(s.text) == 0 {
		return s.at
	}
	if s.containing < s.at {
		s.containing = s.index.layout.containing(s.text, s.at)
	}
	for len(s.near) > 0 && s.near[0] < s.at {
		s.near = s.near[1:]
	}
	if len(s.near) > 0 {
		return min(s.containing, s.near[0])
	}
	return s.containing
}

// Name returns the name of the match. It is valid until the next call of Next.
func (s *Search) Name() []byte {
	start := 0
	if s.this > 0 {
		start = s.found[s.this-1].end
	}
	return s.names[start:s.found[s.this].end]
}

// Rank returns the rank of the match.
func (s *Search) Rank() Rank { return s.found[s.this].rank }

// At returns the position of the match, for NameAt.
func (s *Search) At() int { return s.found[s.this].at }

// NameAt returns a name by its position.
func (x *Index) NameAt(at int) (name string, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	return string(x.name(at)), nil
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
	for _, i := range x.near([]byte(text)) {
		if len(out) == most {
			break
		}
		out = append(out, string(x.name(i)))
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
