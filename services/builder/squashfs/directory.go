package squashfs

import (
	"encoding/binary"
	"math"
)

const (
	// headerNames is the maximum number of names that follow a header in a listing.
	headerNames = 256
	headerSize  = 12
	// emptyListing is added to the length of a listing, in bytes, for "." and "..", which
	// are not stored.
	emptyListing = 3
)

// indexEntry is an entry of a directory's index: the offset of a header in the listing, its block
// of the table, and the first name after it.
type indexEntry struct {
	at, block uint32
	name      string
}

// listing describes the listing of a directory: its position, its length in bytes, and its
// index.
type listing struct {
	start ref
	size  uint32
	links uint32
	index []indexEntry
}

// list writes the listing of a directory whose inodes have been written. The names under
// one header share a block of inodes, and have inode numbers close to the first one's. They
// do not cross more block boundaries of the table than necessary, since a lookup starts at
// a header.
func (t *tables) list(dir uint32) {
	d := listing{start: t.listings.at(), links: 2, index: t.dir.index[:0]}
	t.all = t.all[:0]
	for id := t.tree.inodes.At(dir).of; id != 0; {
		e := t.tree.entries.At(id)
		t.all = append(t.all, id)
		id = e.next
	}
	all, block := t.all, t.listings.size
	for len(all) > 0 {
		if t.listings.size != block {
			block = t.listings.size
			_, name, _ := t.entry(all[0])
			d.index = append(d.index, indexEntry{d.size, uint32(block), name})
		}
		n := t.run(all)
		d.size += t.names(all[:n], &d)
		all = all[n:]
	}
	t.dir = d
}

// entry returns an entry, its name and its inode.
func (t *tables) entry(id uint32) (e *entry, name string, n *inode) {
	e = t.tree.entries.At(id)
	return e, t.tree.texts.At(e.name), t.tree.inodes.At(e.inode)
}

// run returns how many names fit under one header.
func (t *tables) run(all []uint32) int {
	_, _, first := t.entry(all[0])
	left := metadataSize - (len(t.listings.raw)+headerSize)%metadataSize
	for i, id := range all {
		_, name, n := t.entry(id)
		delta := int64(n.number) - int64(first.number)
		left -= nameSize(name)
		if i > 0 && left < 0 || i == headerNames || n.ref.block() != first.ref.block() || delta != int64(int16(delta)) {
			return i
		}
	}
	return len(all)
}

func nameSize(name string) int { return 8 + len(name) }

// names writes names under a header of a directory and returns the length.
func (t *tables) names(all []uint32, d *listing) uint32 {
	le := binary.LittleEndian
	_, _, first := t.entry(all[0])
	out := le.AppendUint32(t.piece[:0], uint32(len(all)-1))
	out = le.AppendUint32(out, first.ref.block())
	out = le.AppendUint32(out, first.number)
	for _, id := range all {
		_, name, n := t.entry(id)
		if n.kind == folder {
			d.links++
		}
		out = le.AppendUint16(out, n.ref.offset())
		out = le.AppendUint16(out, uint16(n.number-first.number))
		out = le.AppendUint16(out, uint16(n.kind))
		out = le.AppendUint16(out, uint16(len(name)-1))
		out = append(out, name...)
	}
	t.listings.add(out)
	t.piece = out
	return uint32(len(out))
}

// folder returns the inode of the directory whose listing was written last.
func (t *tables) folder(n *inode, parent uint32) []byte {
	le, d, links := binary.LittleEndian, &t.dir, t.dir.links
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
