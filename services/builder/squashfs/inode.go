package squashfs

import (
	"encoding/binary"
	"math"
)

// extended is what is added to a kind whose inode holds more: attributes, and what
// does not fit otherwise.
const extended = 7

// head begins an inode.
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

// inode writes an inode, after the listing of what is a directory.
func (t *tables) inode(n *inode, parent uint32) {
	if n.kind == folder {
		t.list(n.below)
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
	le, f := binary.LittleEndian, n.file
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
	for _, word := range f.blocks {
		out = le.AppendUint32(out, word)
	}
	return out
}

// special is a symbolic link, a device or a fifo.
func (t *tables) special(n *inode) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(t.head(n, n.kind), n.links)
	if n.kind == symlink {
		out = le.AppendUint32(out, uint32(len(n.target)))
		out = append(out, n.target...)
	}
	if n.kind == blockDevice || n.kind == charDevice {
		out = le.AppendUint32(out, n.device)
	}
	if n.attributes != none {
		out = le.AppendUint32(out, n.attributes)
	}
	return out
}
