package index

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
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

// Dependents returns the number of records of the index that depend on a name.
func (x *Index) Dependents(name string) (n int, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	return x.dependents([]byte(name)), nil
}

func (x *Index) dependents(name []byte) int {
	low, high := 0, len(x.uses)/useSize
	for low < high {
		mid := (low + high) / 2
		u := x.use(mid)
		switch c := bytes.Compare(name, x.texts[u.text:u.text+u.size]); {
		case c == 0:
			return int(u.records)
		case c < 0:
			high = mid
		default:
			low = mid + 1
		}
	}
	return 0
}
