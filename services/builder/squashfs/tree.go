package squashfs

import (
	"archive/tar"
	"math"
	"strconv"
	"strings"
)

const (
	maxName = 255
	maxPath = 4095
)

// kind is what an inode is, as squashfs numbers them.
type kind uint16

const (
	folder kind = iota + 1
	regular
	symlink
	blockDevice
	charDevice
	fifo
)

// inode is a file, a directory or something else that has names.
type inode struct {
	kind         kind
	mode         uint16 // the permissions, with the bits for setuid and so on
	owner, group uint16 // indices of the image's list
	mtime        uint32 // seconds since 1970
	links        uint32 // names
	attributes   uint32 // index of its set, or none
	number       uint32 // from 1 on; 0 is not numbered yet
	device       uint32
	ref          ref
	written      bool
	file         *file  // of a regular file
	below        *names // of a directory
	target       string // of a symbolic link
}

// names are those in a directory.
type names struct {
	of map[string]*inode
	// sorted is what of becomes in the end.
	sorted []entry
	// start is where the listing is, size its length in bytes.
	start ref
	size  uint32
	index []mark
}

// entry is a name in a directory.
type entry struct {
	name string
	*inode
}

// newFolder is a directory that nothing describes: it belongs to user 0.
func newFolder() *inode { return &inode{kind: folder, mode: 0o755, attributes: none, below: &names{}} }

// locate is the directory of a path, made where it is missing, and the name in it;
// the name is "" for the root.
func (w *Writer) locate(path string) (parent *inode, name string, err error) {
	if len(path) > maxPath {
		return nil, "", refuse("a path is longer than %d bytes: %s", maxPath, quoted(path))
	}
	parent = w.root
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." {
			continue
		}
		if part == ".." || len(part) > maxName || strings.ContainsRune(part, 0) {
			return nil, "", refuse("no file can have the path %s", quoted(path))
		}
		if name != "" {
			if parent, err = w.enter(parent, name); err != nil {
				return nil, "", err
			}
		}
		name = part
	}
	return parent, name, nil
}

// enter is a directory in another.
func (w *Writer) enter(parent *inode, name string) (*inode, error) {
	n := parent.below.of[name]
	if n == nil {
		n = newFolder()
		return n, w.place(parent, name, n)
	}
	if n.kind != folder {
		return nil, refuse("there are entries below %s, which is no directory", quoted(name))
	}
	return n, nil
}

// lookup is nil for what is not there.
func (w *Writer) lookup(path string) *inode {
	n := w.root
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "" || part == ".":
		case n == nil || n.kind != folder:
			return nil
		default:
			n = n.below.of[part]
		}
	}
	return n
}

// place gives an inode a name, which another may lose.
func (w *Writer) place(parent *inode, name string, n *inode) error {
	if name == "" {
		return refuse("the root is no directory")
	}
	if old := parent.below.of[name]; old != nil {
		if old.kind == folder || n.kind == folder {
			return refuse("%s is a directory and something else", quoted(name))
		}
		old.links--
	}
	if n.links == math.MaxUint32 {
		return refuse("%s has too many names", quoted(name))
	}
	n.links++
	if parent.below.of == nil {
		parent.below.of = map[string]*inode{}
	}
	parent.below.of[strings.Clone(name)] = n
	return w.charge(inodeCost + len(name))
}

// link gives what has a name another.
func (w *Writer) link(parent *inode, name string, h *tar.Header) error {
	n := w.lookup(h.Linkname)
	switch {
	case n == nil:
		return refuse("the hard link %s leads to %s, which is not there", quoted(h.Name), quoted(h.Linkname))
	case n.kind == folder:
		return refuse("the hard link %s leads to the directory %s", quoted(h.Name), quoted(h.Linkname))
	case parent.below.of[name] == n:
		return nil
	}
	return w.place(parent, name, n)
}

// directory adds or describes a directory.
func (w *Writer) directory(parent *inode, name string, h *tar.Header) error {
	n := parent
	if name != "" {
		var err error
		if n, err = w.enter(parent, name); err != nil {
			return err
		}
	}
	described, err := w.inode(h)
	if err != nil {
		return err
	}
	described.links, described.below = n.links, n.below
	*n = *described
	return nil
}

// inode is what a header describes, without its content and without a name.
func (w *Writer) inode(h *tar.Header) (*inode, error) {
	n := &inode{mode: uint16(h.Mode & 0o7777), mtime: uint32(min(max(h.ModTime.Unix(), 0), math.MaxUint32))}
	switch h.Typeflag {
	case tar.TypeDir:
		n.kind = folder
	case tar.TypeReg:
		n.kind, n.file = regular, &file{}
		if h.Size < 0 {
			return nil, refuse("%s has no length", quoted(h.Name))
		}
	case tar.TypeSymlink:
		n.kind, n.target, n.mode = symlink, strings.Clone(h.Linkname), 0o777
		if h.Linkname == "" || len(h.Linkname) > maxPath || strings.ContainsRune(h.Linkname, 0) {
			return nil, refuse("the symbolic link %s leads nowhere", quoted(h.Name))
		}
	case tar.TypeBlock, tar.TypeChar:
		n.kind, n.device = blockDevice, device(h)
		if h.Typeflag == tar.TypeChar {
			n.kind = charDevice
		}
	case tar.TypeFifo:
		n.kind = fifo
	default:
		return nil, refuse("%s is of the unknown type %q", quoted(h.Name), h.Typeflag)
	}
	return n, w.describe(n, h)
}

// describe fills in what all kinds have.
func (w *Writer) describe(n *inode, h *tar.Header) (err error) {
	if n.owner, err = w.identity(h.Uid); err != nil {
		return err
	}
	if n.group, err = w.identity(h.Gid); err != nil {
		return err
	}
	if n.attributes, err = w.attributesOf(h.PAXRecords); err != nil {
		return err
	}
	return w.charge(len(n.target))
}

// device is a device's number, as the kernel keeps it.
func device(h *tar.Header) uint32 {
	major, minor := uint32(h.Devmajor), uint32(h.Devminor)
	return minor&0xff | major&0xfff<<8 | minor&^0xff<<12
}

// identity is the index of a user or group in the image's list.
func (w *Writer) identity(id int) (uint16, error) {
	if id < 0 || int64(id) > math.MaxUint32 {
		return 0, refuse("%d is no user or group", id)
	}
	if at, ok := w.ids[uint32(id)]; ok {
		return at, nil
	}
	at := len(w.owners)
	if at == math.MaxUint16 {
		return 0, refuse("the files belong to more than %d users and groups", at)
	}
	w.owners = append(w.owners, uint32(id))
	w.ids[uint32(id)] = uint16(at)
	return uint16(at), nil
}

// quoted shows a name from outside.
func quoted(s string) string {
	const most = 120
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
