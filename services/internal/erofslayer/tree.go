package erofslayer

import (
	"archive/tar"
	"path"
	"slices"
	"strings"

	"slipway.dev/services/internal/limits"
)

// Limits of trees. The kernel has the same limit of names and targets.
const (
	maxName   = 255
	maxTarget = 4095
	maxPath   = 4096
	// maxSize is the maximum size of a file in bytes: an image has 2^32 blocks.
	maxSize = 1 << 43
)

// Names in tars that hide files of lower layers.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
	auxPrefix      = ".wh..wh." // further files of aufs, which hide nothing
)

// A node is an inode. Hard links are several names of one node.
type node struct {
	mode       uint16
	uid, gid   uint32
	mtime      int64
	mtimeNsec  uint32
	device     uint32
	size       uint64
	target     string
	xattrs     []byte // encoded
	block      uint64 // first block of a file, from the first block of all contents on
	isWhiteout bool
	isOpaque   bool // a directory that hides the files of lower layers

	children map[string]*node // of a directory
	names    []string         // of a directory, sorted when the image is encoded

	ino, nlink uint32
	nid        uint64
	data       uint64 // first block in the image of a directory or of a long target
}

func (n *node) isDir() bool { return n.mode&modeType == modeDir }

// A tree is the files of a layer.
type tree struct {
	root  *node
	count int
}

func newTree() tree { return tree{root: newDir(), count: 1} }

// newDir returns a directory that the tar does not list.
func newDir() *node { return &node{mode: modeDir | 0o755, children: map[string]*node{}} }

// add adds an entry of a tar. It returns the node if the contents of a file follow.
func (t *tree) add(h *tar.Header) (*node, error) {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	if len(h.Name) > maxPath {
		return nil, refuse("the path %.200q is longer than %d bytes", h.Name, maxPath)
	}
	parent, err := t.parent(name)
	if err != nil {
		return nil, err
	}
	base := path.Base("/" + name)
	switch {
	case name == "":
		if h.Typeflag != tar.TypeDir {
			return nil, refuse("the root is not a directory")
		}
	case len(base) > maxName || strings.ContainsRune(base, 0):
		return nil, refuse("%.300q is no name of a file", base)
	case base == opaqueName:
		parent.isOpaque = true
		return nil, nil //nolint:nilnil // nothing follows
	case strings.HasPrefix(base, auxPrefix):
		return nil, nil //nolint:nilnil // nothing follows
	case strings.HasPrefix(base, whiteoutPrefix):
		return nil, t.whiteout(parent, strings.TrimPrefix(base, whiteoutPrefix), h)
	case h.Typeflag == tar.TypeLink:
		return nil, t.link(parent, base, h)
	}
	n, err := newNode(h)
	if err != nil {
		return nil, err
	}
	if name == "" {
		t.root.replaceDir(n)
		return nil, nil //nolint:nilnil // nothing follows
	}
	return n, t.put(parent, base, n)
}

// newNode returns the node of an entry that is no hard link.
func newNode(h *tar.Header) (*node, error) {
	kind := map[byte]uint16{
		tar.TypeReg: modeFile, tar.TypeDir: modeDir, tar.TypeSymlink: modeLink, tar.TypeChar: modeChar, tar.TypeBlock: modeBlock, tar.TypeFifo: modeFIFO,
	}[h.Typeflag]
	if kind == 0 {
		return nil, refuse("%.200q has the unsupported type %q", h.Name, h.Typeflag)
	}
	n := &node{mode: kind | uint16(h.Mode&0o7777)}
	if err := n.setOwner(h); err != nil {
		return nil, err
	}
	switch kind {
	case modeFile:
		if h.Size < 0 || h.Size > maxSize {
			return nil, refuse("%.200q has %d bytes", h.Name, h.Size)
		}
		n.size = uint64(h.Size)
	case modeDir:
		n.children = map[string]*node{}
	case modeLink:
		if h.Linkname == "" || len(h.Linkname) > maxTarget || strings.ContainsRune(h.Linkname, 0) {
			return nil, refuse("the target of the link %.200q is empty, too long or has a zero byte", h.Name)
		}
		n.target = h.Linkname
	case modeChar, modeBlock:
		if h.Devmajor < 0 || h.Devmajor >= 1<<12 || h.Devminor < 0 || h.Devminor >= 1<<20 {
			return nil, refuse("%.200q is the device %d:%d, which does not exist", h.Name, h.Devmajor, h.Devminor)
		}
		major, minor := uint32(h.Devmajor), uint32(h.Devminor)
		if kind == modeChar && major == 0 && minor == 0 {
			return nil, refuse("%.200q is the device 0:0, which overlayfs would take for a deleted file", h.Name)
		}
		n.device = minor&0xff | major<<8 | minor&^0xff<<12
	}
	var err error
	n.xattrs, err = encodeXattrs(h)
	return n, err
}

func (n *node) setOwner(h *tar.Header) error {
	if h.Uid < 0 || int64(h.Uid) > 1<<32-1 || h.Gid < 0 || int64(h.Gid) > 1<<32-1 {
		return refuse("%.200q belongs to the user %d and the group %d", h.Name, h.Uid, h.Gid)
	}
	n.uid, n.gid = uint32(h.Uid), uint32(h.Gid)
	if !h.ModTime.IsZero() {
		n.mtime, n.mtimeNsec = h.ModTime.Unix(), uint32(h.ModTime.Nanosecond())
	}
	return nil
}

// parent returns the directory of a path, and creates it.
func (t *tree) parent(name string) (*node, error) {
	at := t.root
	dir, _ := path.Split(name)
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if part == "" {
			continue
		}
		if len(part) > maxName || strings.ContainsRune(part, 0) {
			return nil, refuse("%.300q is no name of a directory", part)
		}
		next := at.children[part]
		if next == nil || next.isWhiteout {
			next = newDir()
			if err := t.put(at, part, next); err != nil {
				return nil, err
			}
		}
		if !next.isDir() {
			return nil, refuse("%.200q is below a file that is no directory", name)
		}
		at = next
	}
	return at, nil
}

// put adds a node to a directory. It replaces an earlier entry, as when a tar is unpacked: the files of
// an earlier directory remain if the new entry is a directory, too.
func (t *tree) put(parent *node, base string, n *node) error {
	old := parent.children[base]
	switch {
	case old == nil:
	case old.isDir() && n.isDir():
		old.replaceDir(n)
		return nil
	case old.isDir():
		t.count -= old.total()
	default:
		t.count--
	}
	if t.count++; t.count > limits.ImageEntries {
		return refuse("the layer has more than %d files", limits.ImageEntries)
	}
	parent.children[base] = n
	if old != nil && old.isWhiteout && n.isDir() { // the whiteout is for lower layers
		n.isOpaque = true
	}
	return nil
}

// replaceDir gives a directory the properties of another, and keeps its files.
func (n *node) replaceDir(by *node) {
	n.mode, n.uid, n.gid, n.mtime, n.mtimeNsec, n.xattrs = by.mode, by.uid, by.gid, by.mtime, by.mtimeNsec, by.xattrs
}

// total returns the number of names in a directory, and the directory's.
func (n *node) total() int {
	out := 1
	for _, c := range n.children {
		out += c.total()
	}
	return out
}

// whiteout adds a file that hides a name of lower layers.
func (t *tree) whiteout(parent *node, hidden string, h *tar.Header) error {
	if hidden == "" || hidden == "." || hidden == ".." {
		return refuse("%.200q hides no name", h.Name)
	}
	if old := parent.children[hidden]; old != nil {
		old.isOpaque = old.isDir()
		return nil // the file of this layer hides that of lower ones
	}
	n := &node{mode: modeChar, isWhiteout: true}
	if err := n.setOwner(h); err != nil {
		return err
	}
	return t.put(parent, hidden, n)
}

// link adds a further name of an earlier file.
func (t *tree) link(parent *node, base string, h *tar.Header) error {
	target := t.find(h.Linkname)
	if target == nil || target.isDir() || target.isWhiteout {
		return refuse("%.200q is a hard link to %.200q, which is no earlier file of the layer", h.Name, h.Linkname)
	}
	if parent.children[base] == target {
		return nil
	}
	return t.put(parent, base, target)
}

func (t *tree) find(name string) *node {
	at := t.root
	for part := range strings.SplitSeq(strings.TrimPrefix(path.Clean("/"+name), "/"), "/") {
		if at = at.children[part]; at == nil {
			return nil
		}
	}
	return at
}

// number sorts the names of directories, and numbers the inodes. The result is in the order of the
// inodes, each directory before its entries.
func (t *tree) number() []*node {
	nodes := make([]*node, 0, t.count)
	var visit func(n *node)
	visit = func(n *node) {
		nodes = append(nodes, n)
		n.ino, n.nlink = uint32(len(nodes)), 1
		if !n.isDir() {
			return
		}
		n.nlink = 2
		n.names = make([]string, 0, len(n.children))
		for name := range n.children {
			n.names = append(n.names, name)
		}
		slices.Sort(n.names)
		for _, name := range n.names {
			c := n.children[name]
			if c.ino != 0 {
				c.nlink++
				continue
			}
			visit(c)
			if c.isDir() {
				n.nlink++
			}
		}
	}
	visit(t.root)
	return nodes
}
