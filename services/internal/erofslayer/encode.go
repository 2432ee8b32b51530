package erofslayer

import (
	"hash/crc32"
	"io"
	"math"
)

// image is the order of the inodes of a tree, and the sizes of the parts of its image.
type image struct {
	nodes    []*node
	parents  map[*node]*node
	uuid     [16]byte
	metadata uint64 // blocks before the contents
	contents uint64 // blocks of the contents
}

// newImage determines the positions of all inodes.
func newImage(t *tree, contents uint64, uuid [16]byte) (*image, error) {
	m := &image{nodes: t.number(), parents: map[*node]*node{t.root: t.root}, uuid: uuid, contents: contents}
	at := uint64(superOffset + superSize)
	for _, n := range m.nodes {
		for _, name := range n.names {
			if c := n.children[name]; c.isDir() {
				m.parents[c] = n
			}
		}
		if n.isDir() {
			n.size = directorySize(m.dirents(n))
		}
		head, tail := uint64(inodeSize+n.xattrSize()), uint64(n.inline())
		if tail > 0 && (at+head)%blockSize+tail > blockSize { // the end may not cross a block
			at = roundUp(roundUp(at+head, blockSize)-head, slotSize)
		}
		n.nid = at / slotSize
		at = roundUp(at+head+tail, slotSize)
	}
	at = roundUp(at, blockSize)
	for _, n := range m.nodes {
		if length := n.outside(); length > 0 {
			n.data = at / blockSize
			at += roundUp(length, blockSize)
		}
	}
	m.metadata = at / blockSize
	if m.metadata+contents > math.MaxUint32 {
		return nil, refuse("the layer is larger than 16 TiB")
	}
	return m, nil
}

// inline returns the length of the data behind the inode.
func (n *node) inline() int {
	switch {
	case n.isDir():
		if last := int((n.size-1)%blockSize) + 1; last <= maxInline {
			return last
		}
	case len(n.target) <= maxInline:
		return len(n.target)
	}
	return 0
}

// outside returns the length of the data of the inode in blocks of metadata.
func (n *node) outside() uint64 {
	switch {
	case n.isDir():
		return n.size - uint64(n.inline())
	case n.inline() == 0:
		return uint64(len(n.target))
	}
	return 0
}

type dirent struct {
	name string
	node *node
}

// dirents returns the entries of a directory in the order of their names.
func (m *image) dirents(n *node) []dirent {
	out := make([]dirent, 0, len(n.names)+2)
	dots := []dirent{{".", n}, {"..", m.parents[n]}}
	for _, name := range n.names {
		for len(dots) > 0 && dots[0].name < name {
			out, dots = append(out, dots[0]), dots[1:]
		}
		out = append(out, dirent{name, n.children[name]})
	}
	return append(out, dots...)
}

// firstBlock returns how many entries the first block has, and its used length.
func firstBlock(list []dirent) (count, used int) {
	for _, d := range list {
		if used+direntSize+len(d.name) > blockSize {
			break
		}
		used += direntSize + len(d.name)
		count++
	}
	return count, used
}

func directorySize(list []dirent) (size uint64) {
	for len(list) > 0 {
		count, used := firstBlock(list)
		if list = list[count:]; len(list) > 0 {
			used = blockSize
		}
		size += uint64(used)
	}
	return size
}

// directory returns the contents of a directory: in each block 12 bytes for each name (inode, position of
// the name, type), followed by the names.
func (m *image) directory(n *node) []byte {
	out := make([]byte, 0, n.size)
	for list := m.dirents(n); len(list) > 0; {
		count, used := firstBlock(list)
		block, at := make([]byte, used, blockSize), count*direntSize
		for i, d := range list[:count] {
			le.PutUint64(block[i*direntSize:], d.node.nid)
			le.PutUint16(block[i*direntSize+8:], uint16(at))
			block[i*direntSize+10] = kindOf(d.node.mode)
			at += copy(block[at:], d.name)
		}
		if list = list[count:]; len(list) > 0 {
			block = block[:blockSize]
		}
		out = append(out, block...)
	}
	return out
}

// write writes the metadata.
func (m *image) write(to io.Writer) error {
	w := &placer{out: to}
	w.put(superOffset, m.super())
	for _, n := range m.nodes {
		w.put(n.nid*slotSize, m.inode(n))
	}
	for _, n := range m.nodes {
		switch outside := n.outside(); {
		case outside == 0:
		case n.isDir():
			w.put(n.data*blockSize, m.directory(n)[:outside])
		default:
			w.put(n.data*blockSize, []byte(n.target))
		}
	}
	w.put(m.metadata*blockSize, nil)
	return w.err
}

func (m *image) super() []byte {
	s := make([]byte, superSize)
	le.PutUint32(s[0:], superMagic)
	le.PutUint32(s[8:], compatChecksum|compatMtime)
	s[12] = blockBits
	le.PutUint16(s[14:], uint16(m.nodes[0].nid))
	le.PutUint64(s[16:], uint64(len(m.nodes)))
	le.PutUint32(s[36:], uint32(m.metadata+m.contents))
	copy(s[48:64], m.uuid[:])
	return s
}

// inode returns an inode with what follows it.
func (m *image) inode(n *node) []byte {
	p := make([]byte, inodeSize, inodeSize+n.xattrSize()+n.inline())
	layout, union := uint16(layoutPlain), uint32(n.data)
	switch {
	case n.inline() > 0:
		layout = layoutInline
	case n.mode&modeType == modeFile && n.size > 0:
		union = uint32(m.metadata + n.block)
	}
	size := n.size
	if n.target != "" {
		size = uint64(len(n.target))
	}
	if kind := n.mode & modeType; kind == modeChar || kind == modeBlock {
		union = n.device
	}
	le.PutUint16(p[0:], 1|layout<<1)
	xattrs := n.attributes()
	if len(xattrs) > 0 {
		le.PutUint16(p[2:], uint16(len(xattrs)/4+1))
	}
	le.PutUint16(p[4:], n.mode)
	le.PutUint64(p[8:], size)
	le.PutUint32(p[16:], union)
	le.PutUint32(p[20:], n.ino)
	le.PutUint32(p[24:], n.uid)
	le.PutUint32(p[28:], n.gid)
	le.PutUint64(p[32:], uint64(n.mtime))
	le.PutUint32(p[40:], n.mtimeNsec)
	le.PutUint32(p[44:], n.nlink)
	if len(xattrs) > 0 {
		p = append(append(p, make([]byte, xattrHeader)...), xattrs...)
	}
	switch {
	case n.inline() == 0:
	case n.isDir():
		p = append(p, m.directory(n)[n.outside():]...)
	default:
		p = append(p, n.target...)
	}
	return p
}

// A placer writes parts at increasing positions, and the checksum of the first block.
type placer struct {
	out  io.Writer
	at   uint64
	head []byte // of the first block
	err  error
}

// put writes a part at a position, after zeros.
func (w *placer) put(at uint64, part []byte) {
	zeros := make([]byte, min(at-w.at, blockSize))
	for w.at < at {
		w.write(zeros[:min(at-w.at, blockSize)])
	}
	w.write(part)
}

func (w *placer) write(p []byte) {
	w.at += uint64(len(p))
	if left := blockSize - len(w.head); left > 0 {
		n := min(left, len(p))
		w.head, p = append(w.head, p[:n]...), p[n:]
		if len(w.head) < blockSize {
			return
		}
		sum := ^crc32.Checksum(w.head[superOffset:], crc32.MakeTable(crc32.Castagnoli))
		le.PutUint32(w.head[superOffset+4:], sum)
		_, w.err = w.out.Write(w.head)
	}
	if w.err == nil && len(p) > 0 {
		_, w.err = w.out.Write(p)
	}
}
