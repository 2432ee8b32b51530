package squashfs

import (
	"encoding/binary"
	"math"
)

// extended is added to the type of an inode with more fields: extended attributes, and
// values that do not fit otherwise.
const extended = 7

// head returns the common beginning of an inode.
func (t *tables) head(n *inode, k kind) []byte {
	le := binary.LittleEndian
	if n.attributes != none {
		k = n.kind + extended
	}
	out := le.AppendUint16(t.piece[:0], uint16(k))
	out = le.AppendUint16(out, n.mode)
	out = le.AppendUint16(out, n.owner)
	out = le.AppendUint16(out, n.group)
	out = le.AppendUint32(out, n.mtime)
	return le.AppendUint32(out, n.number)
}

// inode writes an inode; a directory's listing has been written before.
func (t *tables) inode(id, parent uint32) {
	n := t.tree.inodes.At(id)
	if n.kind == folder {
		t.list(id)
	}
	n.ref, n.written = t.inodes.at(), true
	switch n.kind {
	case folder:
		t.piece = t.folder(n, parent)
	case regular:
		t.piece = t.regular(n)
	default:
		t.piece = t.special(n)
	}
	t.inodes.add(t.piece)
}

func (t *tables) regular(n *inode) []byte {
	le, f := binary.LittleEndian, t.tree.files.At(n.of)
	var out []byte
	if n.links == 1 && f.start <= math.MaxUint32 && f.size <= math.MaxUint32 && f.holes == 0 && n.attributes == none {
		out = t.head(n, n.kind)
		out = le.AppendUint32(out, uint32(f.start))
		out = le.AppendUint32(out, f.end.fragment)
		out = le.AppendUint32(out, f.end.offset)
		out = le.AppendUint32(out, uint32(f.size))
	} else {
		out = t.head(n, n.kind+extended)
		out = le.AppendUint64(out, f.start)
		out = le.AppendUint64(out, f.size)
		out = le.AppendUint64(out, f.holes)
		out = le.AppendUint32(out, n.links)
		out = le.AppendUint32(out, f.end.fragment)
		out = le.AppendUint32(out, f.end.offset)
		out = le.AppendUint32(out, n.attributes)
	}
	for i := range f.count {
		out = le.AppendUint32(out, *t.words.At(f.first + i))
	}
	return out
}

// special returns a symbolic link, a device or a fifo.
func (t *tables) special(n *inode) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(t.head(n, n.kind), n.links)
	if n.kind == symlink {
		target := t.tree.texts.At(n.of)
		out = le.AppendUint32(out, uint32(len(target)))
		out = append(out, target...)
	}
	if n.kind == blockDevice || n.kind == charDevice {
		out = le.AppendUint32(out, n.of)
	}
	if n.attributes != none {
		out = le.AppendUint32(out, n.attributes)
	}
	return out
}
