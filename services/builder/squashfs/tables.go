package squashfs

import (
	"encoding/binary"

	"slipway.dev/services/builder/arena"
)

// tables are the inodes and the directory listings.
type tables struct {
	tree  *tree
	words *arena.Table[uint32]

	inodes, listings *metadata
	// stored holds the compressed listings, which follow the inodes.
	stored *arena.Bytes
	count  uint32
	piece  []byte
	// dir and all belong to the directory that is being written.
	dir listing
	all []uint32
}

func newTables(w *Writer) *tables {
	t := &tables{tree: &w.tree, words: w.words, inodes: newMetadata(w.pack, &w.image), stored: arena.NewBytes(w.memory)}
	t.listings = newMetadata(w.pack, t.stored)
	return t
}

// number assigns inode numbers below a directory in the order of writing: the inodes of a
// directory are consecutive, after those of its subdirectories.
func (t *tables) number(dir uint32) {
	t.all = t.tree.sorted(t.all[:0], dir)
	first := t.tree.inodes.At(dir).of
	for id := first; id != 0; {
		e, _, n := t.entry(id)
		if n.kind == folder {
			t.number(e.inode)
		}
		id = e.next
	}
	for id := first; id != 0; {
		e, _, n := t.entry(id)
		if n.number == 0 {
			t.count++
			n.number = t.count
		}
		id = e.next
	}
}

// write writes everything below a directory.
func (t *tables) write(dir uint32) {
	n := t.tree.inodes.At(dir)
	for id := n.of; id != 0; {
		e, _, below := t.entry(id)
		if below.kind == folder {
			t.write(e.inode)
		}
		id = e.next
	}
	for id := n.of; id != 0; {
		e, _, below := t.entry(id)
		if !below.written {
			t.inode(e.inode, n.number)
		}
		id = e.next
	}
}

// writeTree writes the whole tree and returns the root's reference.
func (t *tables) writeTree() (ref, error) {
	t.number(root)
	t.count++
	top := t.tree.inodes.At(root)
	top.number = t.count
	t.write(root)
	t.inode(root, top.number+1)
	if err := t.inodes.end(); err != nil {
		return 0, err
	}
	return top.ref, t.listings.end()
}

// indexed writes a table that is found through a list of its blocks' positions, and returns
// the position of that list.
func (m *image) indexed(rows int, row func(to []byte, i int) []byte) (uint64, error) {
	starts, err := m.rows(rows, row)
	if err != nil {
		return 0, err
	}
	at := m.end
	return at, m.append(appendAll(nil, starts))
}

// rows writes a table and returns the positions of its blocks.
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
