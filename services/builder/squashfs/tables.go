package squashfs

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
)

// tables are the inodes and the listings of directories.
type tables struct {
	inodes, listings *metadata
	// stored is what of the listings is compressed: they follow the inodes.
	stored bytes.Buffer
	count  uint32
	piece  []byte
}

func newTables(m *image) *tables {
	t := &tables{inodes: newMetadata(m.pack, m)}
	t.listings = newMetadata(m.pack, &t.stored)
	return t
}

// number gives the inodes below a directory their numbers, in the order in which
// they are written: those of one directory together, after those of the directories
// in it.
func (t *tables) number(d *names) {
	for _, name := range slices.Sorted(maps.Keys(d.of)) {
		d.sorted = append(d.sorted, entry{name, d.of[name]})
	}
	d.of = nil
	for _, e := range d.sorted {
		if e.kind == folder {
			t.number(e.below)
		}
	}
	for _, e := range d.sorted {
		if e.number == 0 {
			t.count++
			e.number = t.count
		}
	}
}

// write writes what is below a directory.
func (t *tables) write(n *inode) {
	for _, e := range n.below.sorted {
		if e.kind == folder {
			t.write(e.inode)
		}
	}
	for _, e := range n.below.sorted {
		if !e.written {
			t.inode(e.inode, n.number)
		}
	}
}

// tree writes all of it, and answers where the root is.
func (t *tables) tree(root *inode) (ref, error) {
	t.number(root.below)
	t.count++
	root.number = t.count
	t.write(root)
	t.inode(root, root.number+1)
	if err := t.inodes.end(); err != nil {
		return 0, err
	}
	return root.ref, t.listings.end()
}

// indexed writes a table that is found by a list of where its blocks are, and answers
// where that list is.
func (m *image) indexed(rows int, row func(to []byte, i int) []byte) (uint64, error) {
	starts, err := m.rows(rows, row)
	if err != nil {
		return 0, err
	}
	at := m.end
	return at, m.append(appendAll(nil, starts))
}

// rows writes a table, and answers where its blocks are.
func (m *image) rows(rows int, row func(to []byte, i int) []byte) ([]uint64, error) {
	t := newMetadata(m.pack, m)
	begin := m.end
	var piece []byte
	for i := range rows {
		piece = row(piece[:0], i)
		t.add(piece)
	}
	err := t.end()
	for i := range t.starts {
		t.starts[i] += begin
	}
	return t.starts, err
}

func appendAll(to []byte, numbers []uint64) []byte {
	for _, n := range numbers {
		to = binary.LittleEndian.AppendUint64(to, n)
	}
	return to
}
