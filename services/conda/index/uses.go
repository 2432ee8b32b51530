package index

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sort"
	"strings"

	"slipway.dev/services/internal/limits"
)

// uses counts the records that depend on each name. The channel may have no records of the
// name. Names beyond limits.ChannelNames are not counted.
type uses struct {
	ids   map[string]uint32
	list  []used
	bytes int
}

type used struct {
	name    string
	records uint32
}

// Write implements io.Writer. It counts the dependencies of records, which are JSON arrays
// without a separator. It runs in a goroutine of its own, which must not end the process.
func (u *uses) Write(lists []byte) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	for n < len(lists) && err == nil {
		n, err = array(lists, n, maxDepth, func(v []byte) { u.add(dependency(unquoted(v))) })
	}
	return n, err
}

// add counts a name. Most names are known and in lower case, so that they are looked up before
// they are validated and converted.
func (u *uses) add(name []byte) {
	id, known := u.ids[string(name)]
	if !known {
		if !isWord(name) || bytes.HasPrefix(name, []byte("__")) {
			return // invalid, or a virtual package
		}
		name = bytes.ToLower(name)
		id, known = u.ids[string(name)]
	}
	if known {
		u.list[id].records++
		return
	}
	if len(u.list) == limits.ChannelNames || u.bytes+len(name) > limits.ChannelNamesBytes {
		return
	}
	u.bytes += len(name)
	u.ids[string(name)] = uint32(len(u.list))
	u.list = append(u.list, used{string(name), 1})
}

// dependency returns the package name of a dependency as written.
func dependency(spec []byte) []byte {
	if _, after, ok := bytes.Cut(spec, []byte("::")); ok {
		spec = after
	}
	for i, c := range spec {
		switch c {
		case ' ', '=', '<', '>', '!', '~', '[', ',', ';':
			return spec[:i]
		}
	}
	return spec
}

// write writes the sections uses and texts, and returns their offsets.
func (u *uses) write(out *directory) (table, texts uint64) {
	slices.SortFunc(u.list, func(a, b used) int { return strings.Compare(a.name, b.name) })
	table = out.at
	var b []byte
	var text uint32
	for _, n := range u.list {
		b = use{text, uint32(len(n.name)), n.records}.append(b[:0])
		out.write(b)
		text += uint32(len(n.name))
	}
	texts = out.at
	for _, n := range u.list {
		out.write([]byte(n.name))
	}
	return table, texts
}

// A Counter counts the records of indexes that depend on names. It must not be used
// concurrently.
type Counter struct {
	among []*Index
	// at are the positions from which the next name is looked up in each index.
	at []int
}

// NewCounter returns a counter for indexes.
func NewCounter(among ...*Index) *Counter {
	return &Counter{among, make([]int, len(among))}
}

// Dependents returns the number of records that depend on the name at a position of an index.
// The names of calls must be in ascending order, so that counting for many names reads each
// index once.
func (c *Counter) Dependents(x *Index, at int) (n int, err error) {
	defer runtime.KeepAlive(c)
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	name := x.name(at)
	for i, among := range c.among {
		var records int
		records, c.at[i] = among.dependents(name, c.at[i])
		n += records
	}
	return n, nil
}

// Dependents returns the number of records of the index that depend on a name.
func (x *Index) Dependents(name string) (n int, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	n, _ = x.dependents([]byte(name), 0)
	return n, nil
}

// dependents returns the number of records that depend on a name, which must not be before the
// position from, and its position.
func (x *Index) dependents(name []byte, from int) (records, at int) {
	total, step := len(x.uses)/useSize, 1
	for from+step < total && bytes.Compare(name, x.useName(from+step)) >= 0 {
		from += step
		step *= 2
	}
	i, ok := sort.Find(min(step, total-from), func(i int) int { return bytes.Compare(name, x.useName(from+i)) })
	if !ok {
		return 0, from + i
	}
	return int(x.use(from + i).records), from + i
}

// useName returns the name at position i in uses.
func (l *layout) useName(i int) []byte {
	u := l.use(i)
	return l.texts[u.text : u.text+u.size]
}
