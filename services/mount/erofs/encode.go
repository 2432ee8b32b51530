package erofs

import (
	"errors"
	"math"
	"math/bits"

	"slipway.dev/services/internal/limits"
)

// Encode returns the index of the tree, whose files refer to these devices. It may be called once.
func (t *Tree) Encode(devices []Device) ([]byte, error) {
	if len(devices) > maxDevices {
		return nil, refuse("there are more than %d packages", maxDevices)
	}
	if t.count > limits.MountFiles {
		return nil, refuse("there are more than %d files and directories", limits.MountFiles)
	}
	e := encoder{devices: devices, nodes: make([]*node, 0, t.count), parents: make([]*node, 0, t.count)}
	e.collect(t.root, t.root)
	size, err := e.place()
	if err != nil {
		return nil, err
	}
	total := size + trailerSize
	for _, d := range devices {
		total += 8 + 32*uint64(len(d.Chunks))
	}
	e.out = make([]byte, size, total)
	e.super()
	for i, n := range e.nodes {
		if err := e.inode(n, e.parents[i]); err != nil {
			return nil, err
		}
	}
	return e.chunks(size), nil
}

// errOutside is returned for a file whose extent is not in its device, which is an error of the caller.
var errOutside = errors.New("a file is outside of its device")

// An encoder encodes a tree. The nodes are in the order of their inodes, each directory before its
// entries.
type encoder struct {
	devices        []Device
	nodes, parents []*node
	out            []byte
}

// collect numbers the nodes.
func (e *encoder) collect(n, parent *node) {
	n.ino = uint32(len(e.nodes) + 1)
	e.nodes, e.parents = append(e.nodes, n), append(e.parents, parent)
	n.nlink = 1
	if !n.isDir() {
		return
	}
	n.nlink = 2
	n.sort()
	for _, l := range n.links {
		switch {
		case l.node.ino != 0: // another name of a file
			l.node.nlink++
		default:
			e.collect(l.node, n)
		}
		if l.node.isDir() {
			n.nlink++
		}
	}
}

// place determines the positions of inodes and of the contents in the image. It returns the size
// of the image.
func (e *encoder) place() (uint64, error) {
	at := uint64(deviceTable + deviceSize*len(e.devices))
	for _, n := range e.nodes {
		if n.isDir() {
			n.blocks = directory(n)
		}
		need := uint64(inodeSize + extentSize)
		if tail := n.inline(); tail > 0 {
			need = inodeSize + uint64(tail)
			if at%BlockSize+need > BlockSize { // an inode with its end may not cross a block
				at = roundUp(at, BlockSize)
			}
		}
		n.nid = at / slotSize
		at = roundUp(at+need, slotSize)
	}
	at = roundUp(at, BlockSize)
	for _, n := range e.nodes {
		if length := n.outside(); length > 0 {
			n.data = at / BlockSize
			at += roundUp(length, BlockSize)
		}
	}
	if at/BlockSize > math.MaxUint32 || e.nodes[0].nid > math.MaxUint16 {
		return 0, refuse("the names of the files are too long together")
	}
	return at, nil
}

// inline returns the length of the data behind the inode.
func (n *node) inline() int {
	switch {
	case n.isDir():
		if last := len(n.blocks[len(n.blocks)-1]); last <= maxInline {
			return last
		}
	case len(n.Target) <= maxInline:
		return len(n.Target)
	}
	return 0
}

// outside returns the length of the data of the node in the blocks of the image.
func (n *node) outside() uint64 {
	switch {
	case n.isDir():
		full := len(n.blocks)
		if n.inline() > 0 {
			full--
		}
		return uint64(full) * BlockSize
	case n.Target != "":
		if n.inline() > 0 {
			return 0
		}
		return uint64(len(n.Target))
	case n.Device == Embedded:
		return n.Size
	}
	return 0
}

func (e *encoder) super() {
	s := e.out[superOffset:]
	le.PutUint32(s[0:], magic)
	s[12] = byte(bits.TrailingZeros(BlockSize))
	le.PutUint16(s[14:], uint16(e.nodes[0].nid))
	le.PutUint64(s[16:], uint64(len(e.nodes)))
	le.PutUint32(s[36:], uint32(len(e.out)/BlockSize))
	le.PutUint32(s[80:], featureChunked|featureDevices)
	le.PutUint16(s[86:], uint16(len(e.devices)))
	le.PutUint16(s[88:], deviceTable/deviceSize)
	for i, d := range e.devices {
		slot := e.out[deviceTable+deviceSize*i:]
		copy(slot[:64], d.Name())
		le.PutUint32(slot[64:], uint32(d.Size/BlockSize))
	}
}

// inode writes the inode of a node, and its data in the image.
func (e *encoder) inode(n, parent *node) error {
	p := e.out[n.nid*slotSize:]
	layout, size, union := uint16(layoutPlain), n.Size, uint32(n.data)
	switch {
	case n.isDir():
		size = n.directorySize()
		e.directory(n, parent)
		if n.inline() > 0 {
			layout = layoutInline
		}
	case n.Target != "":
		size = uint64(len(n.Target))
		if n.inline() > 0 {
			layout = layoutInline
			copy(p[inodeSize:], n.Target)
		} else {
			copy(e.out[n.data*BlockSize:], n.Target)
		}
	case n.Device == Embedded:
		copy(e.out[n.data*BlockSize:], n.Data)
	case n.Size > 0:
		if n.Device >= len(e.devices) || uint64(n.Block)*BlockSize+n.Size > e.devices[n.Device].Size {
			return errOutside
		}
		layout = layoutChunk
		union = chunkIndexes | uint32(bits.Len64((n.Size-1)/BlockSize)) // one extent has the whole file
		le.PutUint16(p[inodeSize+2:], uint16(n.Device+1))
		le.PutUint32(p[inodeSize+4:], n.Block)
	}
	le.PutUint16(p[0:], 1|layout<<1)
	le.PutUint16(p[4:], n.Mode)
	le.PutUint64(p[8:], size)
	le.PutUint32(p[16:], union)
	le.PutUint32(p[20:], n.ino)
	le.PutUint64(p[32:], uint64(n.Mtime))
	le.PutUint32(p[44:], n.nlink)
	return nil
}

func (n *node) directorySize() uint64 {
	last := len(n.blocks) - 1
	return uint64(last)*BlockSize + uint64(len(n.blocks[last]))
}

// directory returns the blocks of a directory: for each name 12 bytes (inode, position of the name,
// type), followed by the names. The inodes are not known yet.
func directory(n *node) [][]byte {
	list := make([]link, 0, len(n.links)+2)
	dots := []link{{".", n}, {"..", n}}
	for _, l := range n.links {
		for len(dots) > 0 && dots[0].name < l.name {
			list, dots = append(list, dots[0]), dots[1:]
		}
		list = append(list, l)
	}
	list = append(list, dots...)
	var out [][]byte
	for len(list) > 0 {
		count, used := 0, 0
		for count < len(list) && used+direntSize+len(list[count].name) <= BlockSize {
			used += direntSize + len(list[count].name)
			count++
		}
		block, at := make([]byte, used), count*direntSize
		for i, l := range list[:count] {
			le.PutUint16(block[i*direntSize+8:], uint16(at))
			block[i*direntSize+10] = kindOf(l.node.Mode)
			at += copy(block[at:], l.name)
		}
		out, list = append(out, block), list[count:]
	}
	return out
}

// directory writes a directory with the numbers of its inodes.
func (e *encoder) directory(n, parent *node) {
	next := 0
	for i, block := range n.blocks {
		count := int(le.Uint16(block[8:])) / direntSize
		for j := range count {
			var nid uint64
			switch nameAt(block, j, count) {
			case ".":
				nid = n.nid
			case "..":
				nid = parent.nid
			default:
				nid = n.links[next].node.nid
				next++
			}
			le.PutUint64(block[j*direntSize:], nid)
		}
		if i == len(n.blocks)-1 && n.inline() > 0 {
			copy(e.out[n.nid*slotSize+inodeSize:], block)
		} else {
			copy(e.out[(n.data+uint64(i))*BlockSize:], block)
		}
	}
}

// chunks appends what follows the image.
func (e *encoder) chunks(image uint64) []byte {
	out := e.out
	for _, d := range e.devices {
		out = le.AppendUint64(out, d.Size)
		for i := range d.Chunks {
			out = append(out, d.Chunks[i][:]...)
		}
	}
	out = le.AppendUint64(out, image)
	out = le.AppendUint64(out, uint64(len(e.devices)))
	return append(out, trailerMagic...)
}
