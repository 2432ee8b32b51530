package index

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// start returns the offset of the name at position i, or the length of all names.
func (l *layout) start(i int) int {
	if i == l.count {
		return len(l.names)
	}
	return int(binary.LittleEndian.Uint32(l.entries[i*entrySize:]))
}

// containing returns the position of the first name at or after from that contains text, which
// must not be empty, or the number of names. All names are searched as one string: this takes
// about a nanosecond for ten bytes, and no memory.
func (l *layout) containing(text []byte, from int) int {
	for from < l.count {
		at, end := l.start(from), l.start(from+1)
		if bytes.Contains(l.names[at:end], text) {
			return from
		}
		next := bytes.Index(l.names[at:], text)
		if next < 0 {
			return l.count
		}
		at += next
		from = l.at(from, at)
		if at+len(text) <= l.start(from+1) {
			return from
		}
		from++ // text ends in the next name, as it would if it began later in this one
	}
	return l.count
}

// at returns the position of the name at an offset. It must not be before from.
func (l *layout) at(from, offset int) int {
	step := 1
	for from+step < l.count && l.start(from+step) <= offset {
		from += step
		step *= 2
	}
	return from + sort.Search(min(step, l.count-from)-1, func(i int) bool { return l.start(from+1+i) > offset })
}

// few is the number of names that are compared one by one.
const few = 8

// near returns the sorted positions of the names for which isOneEdit is true. Names with a
// common beginning are neighbours, so that for each position of the edit, the names that are
// equal to text before it are a range. In the range, one name can result from a deletion, one
// from a swap, and two from each character that follows in any name.
func (l *layout) near(text []byte) []int {
	if len(text) < 3 {
		return nil
	}
	n := nearNames{layout: l, text: text}
	low, high := 0, l.count
	for i := 0; i < len(text) && high-low > few; i++ {
		n.edit(i, low, high)
		low, high = l.followed(low, high, i, text[i])
	}
	if high-low > few {
		n.edit(len(text), low, high)
	}
	for i := low; i < min(high, low+few); i++ {
		n.add(i)
	}
	slices.Sort(n.found)
	return slices.Compact(n.found)
}

// A nearNames collects names.
type nearNames struct {
	*layout
	text, buffer []byte
	found        []int
}

func (n *nearNames) add(i int) {
	if isOneEdit(n.text, n.name(i)) {
		n.found = append(n.found, i)
	}
}

// edit adds the names in a range that differ from text in an edit at position i. All names of
// the range begin with the first i bytes of text.
func (n *nearNames) edit(i, low, high int) {
	if i < len(n.text) {
		n.addEqual(low, high, n.text[:i], n.text[i+1:])
	} else {
		n.addEqual(low, high, n.text)
	}
	if i+1 < len(n.text) {
		n.addEqual(low, high, n.text[:i], n.text[i+1:i+2], n.text[i:i+1], n.text[i+2:])
	}
	if low < high && len(n.name(low)) == i {
		low++ // no character follows
	}
	for low < high {
		next := n.name(low)[i : i+1]
		_, end := n.followed(low, high, i, next[0])
		n.addEqual(low, end, n.text[:i], next, n.text[i:])
		if i < len(n.text) {
			n.addEqual(low, end, n.text[:i], next, n.text[i+1:])
		}
		low = end
	}
}

// addEqual adds the name that consists of parts, if it is in the range.
func (n *nearNames) addEqual(low, high int, parts ...[]byte) {
	n.buffer = n.buffer[:0]
	for _, p := range parts {
		n.buffer = append(n.buffer, p...)
	}
	i, ok := sort.Find(high-low, func(i int) int { return bytes.Compare(n.buffer, n.name(low+i)) })
	if ok {
		n.add(low + i)
	}
}

// followed returns the names in a range whose byte at position i is c. All names of the range
// are equal before it.
func (l *layout) followed(low, high, i int, c byte) (first, end int) {
	from := func(c int) int {
		return low + sort.Search(high-low, func(at int) bool {
			name := l.name(low + at)
			return len(name) > i && int(name[i]) >= c
		})
	}
	return from(int(c)), from(int(c) + 1)
}
