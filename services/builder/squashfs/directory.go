package squashfs

import (
	"encoding/binary"
	"math"
)

const (
	// headerNames is how many names may follow a header in a listing.
	headerNames = 256
	headerSize  = 12
	// emptyListing is what the length of a listing counts beside it, in bytes: "." and
	// "..", which are not stored.
	emptyListing = 3
)

// mark is an entry of a directory's index: the header at a place in the listing, in
// the block of the table, and the first name after it.
type mark struct {
	at, block uint32
	name      string
}

// list writes the listing of a directory, whose inodes have been written. Names
// under one header share a block of inodes and have numbers close to its first; none
// spans more blocks of the table than it must, since a search begins at a header.
func (t *tables) list(d *names) {
	d.start = t.listings.at()
	all, block := d.sorted, t.listings.size
	for len(all) > 0 {
		if t.listings.size != block {
			block = t.listings.size
			d.index = append(d.index, mark{d.size, uint32(block), all[0].name})
		}
		n := t.run(all)
		d.size += t.names(all[:n])
		all = all[n:]
	}
}

// run is how many names fit under one header.
func (t *tables) run(all []entry) int {
	first, left := all[0], metadataSize-(len(t.listings.raw)+headerSize)%metadataSize
	for i, e := range all {
		delta := int64(e.number) - int64(first.number)
		left -= nameSize(e.name)
		if i > 0 && left < 0 || i == headerNames || e.ref.block() != first.ref.block() || delta != int64(int16(delta)) {
			return i
		}
	}
	return len(all)
}

func nameSize(name string) int { return 8 + len(name) }

// names writes names under a header, and answers the length.
func (t *tables) names(all []entry) uint32 {
	le, first := binary.LittleEndian, all[0]
	out := le.AppendUint32(t.piece[:0], uint32(len(all)-1))
	out = le.AppendUint32(out, first.ref.block())
	out = le.AppendUint32(out, first.number)
	for _, e := range all {
		out = le.AppendUint16(out, e.ref.offset())
		out = le.AppendUint16(out, uint16(e.number-first.number))
		out = le.AppendUint16(out, uint16(e.kind))
		out = le.AppendUint16(out, uint16(len(e.name)-1))
		out = append(out, e.name...)
	}
	t.listings.add(out)
	t.piece = out
	return uint32(len(out))
}

// folder is a directory's inode.
func (t *tables) folder(n *inode, parent uint32) []byte {
	le, d := binary.LittleEndian, n.below
	links := uint32(2)
	for _, e := range d.sorted {
		if e.kind == folder {
			links++
		}
	}
	size := d.size + emptyListing
	if n.attributes == none && size <= math.MaxUint16 {
		out := t.head(n, n.kind)
		out = le.AppendUint32(out, d.start.block())
		out = le.AppendUint32(out, links)
		out = le.AppendUint16(out, uint16(size))
		out = le.AppendUint16(out, d.start.offset())
		return le.AppendUint32(out, parent)
	}
	index := d.index[:min(len(d.index), math.MaxUint16)]
	out := t.head(n, n.kind+extended)
	out = le.AppendUint32(out, links)
	out = le.AppendUint32(out, size)
	out = le.AppendUint32(out, d.start.block())
	out = le.AppendUint32(out, parent)
	out = le.AppendUint16(out, uint16(len(index)))
	out = le.AppendUint16(out, d.start.offset())
	out = le.AppendUint32(out, n.attributes)
	for _, m := range index {
		out = le.AppendUint32(out, m.at)
		out = le.AppendUint32(out, m.block)
		out = le.AppendUint32(out, uint32(len(m.name)-1))
		out = append(out, m.name...)
	}
	return out
}
