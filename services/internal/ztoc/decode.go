package ztoc

import (
	"bytes"
	"encoding/binary"
	"sort"

	"slipway.dev/services/internal/limits"
)

// The types of entries.
const (
	KindOther    = byte(0) // a device or a pipe
	KindFile     = byte('0')
	KindHardLink = byte('1')
	KindSymlink  = byte('2')
	KindDir      = byte('5')
)

// An Entry is an entry of a layer's tar.
type Entry struct {
	// Name is the path as the tar has it. Link is the target of a link.
	Name, Link string
	// Offset and Size are the position of the content in the tar in bytes.
	Offset, Size int64
	Kind         byte
}

// A Listing is what a zTOC states about the files and the spans of its layer.
type Listing struct {
	// Entries are the entries of the tar, in its order.
	Entries []Entry
	// starts are the uncompressed offsets at which the spans of a gzip layer begin; nil for a plain tar.
	starts []int64
	last   int // the number of the last span
}

// Span returns the number of the span with an uncompressed offset: the last one for an offset behind the
// layer, as in soci-snapshotter.
func (l *Listing) Span(offset int64) int {
	if l.starts == nil {
		return int(min(max(offset, 0)/SpanSize, int64(l.last)))
	}
	return max(sort.Search(len(l.starts), func(i int) bool { return l.starts[i] > offset })-1, 0)
}

// Spans returns the number of spans.
func (l *Listing) Spans() int { return l.last + 1 }

// Parse parses an encoded zTOC of Marshal. Malformed input is ErrInvalid.
func Parse(raw []byte) (*Listing, error) {
	out := &Listing{}
	b := buffer{raw: raw, budget: 4*int64(len(raw)) + 1<<16}
	root, ok := b.at(0)
	if ok && b.entries(b.field(b.table(root, 4), 0), out) && b.spans(b.table(root, 5), out) {
		return out, nil
	}
	return nil, invalidf("its zTOC is malformed")
}

// A buffer reads a FlatBuffer. Positions are checked against its length; a table at none has no fields.
type buffer struct {
	raw []byte
	// budget is how many bytes of strings may still be copied: parts of a malformed buffer may be used repeatedly.
	budget int64
}

// none is the position of a missing table, vector or string.
const none = -1

// at returns the position that the offset at a position refers to.
func (b *buffer) at(position int) (int, bool) {
	if position < 0 || position > len(b.raw)-4 {
		return none, false
	}
	to := int64(position) + int64(binary.LittleEndian.Uint32(b.raw[position:]))
	return int(to), to <= int64(len(b.raw)-4)
}

// field returns the position of a field of a table, or none.
func (b *buffer) field(table, which int) int {
	if table < 0 || table > len(b.raw)-4 {
		return none
	}
	fields := int64(table) - int64(int32(binary.LittleEndian.Uint32(b.raw[table:])))
	if fields < 0 || fields > int64(len(b.raw)-4) {
		return none
	}
	slot := int64(4 + 2*which)
	if size := int64(binary.LittleEndian.Uint16(b.raw[fields:])); slot+2 > size || fields+slot+2 > int64(len(b.raw)) {
		return none
	}
	offset := int(binary.LittleEndian.Uint16(b.raw[fields+slot:]))
	if offset == 0 {
		return none
	}
	return table + offset
}

// table returns the position of the table, vector or string that a field refers to, or none.
func (b *buffer) table(of, which int) int {
	to, ok := b.at(b.field(of, which))
	if !ok {
		return none
	}
	return to
}

// vector returns the position of the first element of a vector, and its length, if it has elements of a size.
func (b *buffer) vector(position, size int) (first, length int) {
	if position < 0 || position > len(b.raw)-4 {
		return 0, 0
	}
	n := int64(binary.LittleEndian.Uint32(b.raw[position:]))
	if n*int64(size) > int64(len(b.raw)-position-4) {
		return 0, 0
	}
	return position + 4, int(n)
}

// bytes returns the bytes of a string or vector of bytes.
func (b *buffer) bytes(position int) []byte {
	first, n := b.vector(position, 1)
	return b.raw[first : first+n]
}

// text returns a copy of a string.
func (b *buffer) text(position int) string {
	found := b.bytes(position)
	if b.budget -= int64(len(found)); b.budget < 0 {
		return ""
	}
	return string(found)
}

// number returns an integer of 8 bytes, 0 if it is absent.
func (b *buffer) number(of, which int) int64 {
	at := b.field(of, which)
	if at < 0 || at > len(b.raw)-8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b.raw[at:]))
}

// entries reads the list of files that a field refers to.
func (b *buffer) entries(field int, out *Listing) bool {
	list, ok := b.at(field)
	if !ok {
		return false
	}
	first, n := b.vector(list, 4)
	if n > limits.ImageEntries {
		return false
	}
	out.Entries = make([]Entry, 0, n)
	for i := range n {
		file, ok := b.at(first + 4*i)
		if !ok {
			return false
		}
		e := Entry{Name: b.text(b.table(file, 0)), Offset: b.number(file, 2), Size: b.number(file, 3), Link: b.text(b.table(file, 4)), Kind: kindOf(b.bytes(b.table(file, 1)))}
		if b.budget < 0 || e.Offset < 0 || e.Size < 0 || e.Offset+e.Size < 0 {
			return false
		}
		out.Entries = append(out.Entries, e)
	}
	return true
}

// kindOf returns the type of an entry by its name in a zTOC.
func kindOf(word []byte) byte {
	for _, k := range []byte{KindFile, KindHardLink, KindSymlink, KindDir} {
		if name, _ := kind(k); bytes.Equal(word, []byte(name)) {
			return k
		}
	}
	return KindOther
}

// spans reads the positions of the spans from the table CompressionInfo.
func (b *buffer) spans(info int, out *Listing) bool {
	at := b.field(info, 1)
	if info < 0 || at > len(b.raw)-4 {
		return false
	}
	if at >= 0 { // it is absent for one span
		out.last = int(int32(binary.LittleEndian.Uint32(b.raw[at:])))
	}
	if _, n := b.vector(b.table(info, 2), 4); out.last < 0 || n != out.last+1 {
		return false
	}
	algorithm := byte(algorithmGzip)
	if at := b.field(info, 0); at >= len(b.raw) {
		return false
	} else if at >= 0 {
		algorithm = b.raw[at]
	}
	if algorithm != algorithmGzip {
		return algorithm == algorithmUncompressed
	}
	points := b.bytes(b.table(info, 3))
	if len(points) < 12 || len(points) != 12+(out.last+1)*checkpointSize {
		return false
	}
	for i := range out.last + 1 {
		start := int64(binary.LittleEndian.Uint64(points[12+i*checkpointSize+8:]))
		if start < 0 || i > 0 && start < out.starts[i-1] {
			return false
		}
		out.starts = append(out.starts, start)
	}
	return true
}
