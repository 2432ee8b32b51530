package squashfs

import (
	"archive/tar"
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/services/builder/arena"
)

const (
	maxName = 255
	maxPath = 4095
)

// kind is the type of an inode, with the numbers of squashfs.
type kind uint8

const (
	folder kind = iota + 1
	regular
	symlink
	blockDevice
	charDevice
	fifo
)

// inode is a file, a directory or another object with names. It holds no pointers.
type inode struct {
	ref        ref
	mtime      uint32 // seconds since 1970
	links      uint32 // number of names
	attributes uint32 // index of its attribute set, or none
	number     uint32 // from 1; 0 is not numbered yet
	// of is the index of a regular file in files, of a symbolic link's target in texts, of
	// a directory's first entry in entries (0 is none), or the number of a device.
	of           uint32
	mode         uint16 // permission bits, with setuid, setgid and sticky
	owner, group uint16 // indices in the image's list
	kind         kind
	written      bool
}

// entry is a name in a directory. It holds no pointers.
type entry struct {
	parent, inode uint32
	name          uint32 // index in texts
	next          uint32 // another entry of the directory; 0 is none
}

// root is the number of the root's inode.
const root = 0

// tree holds the names and inodes of an image.
type tree struct {
	inodes  *arena.Table[inode]
	files   *arena.Table[placed]
	entries *arena.Table[entry]
	texts   *arena.Strings
	byName  *arena.Index
	seed    maphash.Seed
}

func newTree(memory *arena.Arena) tree {
	t := tree{
		inodes: arena.NewTable[inode](memory), files: arena.NewTable[placed](memory), entries: arena.NewTable[entry](memory),
		texts: arena.NewStrings(memory), seed: maphash.MakeSeed(),
	}
	t.byName = arena.NewIndex(memory, func(id uint32) uint64 {
		e := t.entries.At(id)
		return t.hash(e.parent, t.texts.At(e.name))
	})
	return t
}

func (t *tree) hash(parent uint32, name string) uint64 {
	return maphash.String(t.seed, name) + uint64(parent+1)*0x9e3779b97f4a7c15
}

// find returns the entry of a name in a directory; nil if it does not exist.
func (t *tree) find(parent uint32, name string) *entry {
	id, ok := t.byName.Find(t.hash(parent, name), func(id uint32) bool {
		e := t.entries.At(id)
		return e.parent == parent && t.texts.At(e.name) == name
	})
	if !ok {
		return nil
	}
	return t.entries.At(id)
}

// sorted appends the entries of a directory, sorted by name, to the slice to.
func (t *tree) sorted(to []uint32, dir uint32) []uint32 {
	n := t.inodes.At(dir)
	for id := n.of; id != 0; id = t.entries.At(id).next {
		to = append(to, id)
	}
	slices.SortFunc(to, func(a, b uint32) int {
		return cmp.Compare(t.texts.At(t.entries.At(a).name), t.texts.At(t.entries.At(b).name))
	})
	next := uint32(0)
	for _, id := range slices.Backward(to) {
		t.entries.At(id).next, next = next, id
	}
	n.of = next
	return to
}

// newFolder returns the inode of a directory for which no entry was added yet. It belongs
// to user 0.
func newFolder() inode { return inode{kind: folder, mode: 0o755, attributes: none} }

// plant adds the root.
func (w *Writer) plant() error {
	_, err := w.add(newFolder())
	if err == nil {
		_, _, err = w.entries.Add() // 0 is none
	}
	return w.full(err)
}

// add adds an inode without a name and returns its number.
func (w *Writer) add(n inode) (uint32, error) {
	id, to, err := w.inodes.Add()
	if err != nil {
		return 0, w.full(err)
	}
	*to = n
	return id, nil
}

// locate returns the directory of a path, which it creates if needed, and the name in it;
// the name is "" for the root.
func (w *Writer) locate(path string) (parent uint32, name string, err error) {
	if len(path) > maxPath {
		return 0, "", refuse("a path is longer than %d bytes: %s", maxPath, quoted(path))
	}
	parent = root
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." {
			continue
		}
		if part == ".." || len(part) > maxName || strings.ContainsRune(part, 0) {
			return 0, "", refuse("no file can have the path %s", quoted(path))
		}
		if name != "" {
			if parent, err = w.enter(parent, name); err != nil {
				return 0, "", err
			}
		}
		name = part
	}
	return parent, name, nil
}

// enter returns a subdirectory, which it creates if needed.
func (w *Writer) enter(parent uint32, name string) (uint32, error) {
	e := w.find(parent, name)
	if e == nil {
		id, err := w.add(newFolder())
		if err != nil {
			return 0, err
		}
		return id, w.place(parent, name, id)
	}
	if w.inodes.At(e.inode).kind != folder {
		return 0, refuse("there are entries below %s, which is no directory", quoted(name))
	}
	return e.inode, nil
}

// lookup returns the inode of a path, or false if the path does not exist.
func (w *Writer) lookup(path string) (id uint32, ok bool) {
	id = root
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." {
			continue
		}
		e := w.find(id, part)
		if e == nil {
			return 0, false
		}
		id = e.inode
	}
	return id, true
}

// place assigns a name to an inode. If another inode has the name, it loses it.
func (w *Writer) place(parent uint32, name string, id uint32) error {
	if name == "" {
		return refuse("the root is no directory")
	}
	n, old := w.inodes.At(id), w.find(parent, name)
	if old != nil {
		o := w.inodes.At(old.inode)
		if o.kind == folder || n.kind == folder {
			return refuse("%s is a directory and something else", quoted(name))
		}
		o.links--
	}
	if n.links == math.MaxUint32 {
		return refuse("%s has too many names", quoted(name))
	}
	n.links++
	if old != nil {
		old.inode = id
		return nil
	}
	at, e, err := w.entries.Add()
	if err == nil {
		e.name, err = w.texts.Add(name)
	}
	if err != nil {
		return w.full(err)
	}
	up := w.inodes.At(parent)
	e.parent, e.inode, e.next, up.of = parent, id, up.of, at
	return w.full(w.byName.Add(w.hash(parent, name), at))
}

// link adds another name of an inode.
func (w *Writer) link(parent uint32, name string, h *tar.Header) error {
	id, ok := w.lookup(h.Linkname)
	if !ok {
		return refuse("the target of the hard link %s, %s, does not exist", quoted(h.Name), quoted(h.Linkname))
	}
	if w.inodes.At(id).kind == folder {
		return refuse("the hard link %s leads to the directory %s", quoted(h.Name), quoted(h.Linkname))
	}
	if e := w.find(parent, name); e != nil && e.inode == id {
		return nil
	}
	return w.place(parent, name, id)
}

// directory adds a directory or updates its attributes.
func (w *Writer) directory(parent uint32, name string, h *tar.Header) error {
	id := parent
	if name != "" {
		var err error
		if id, err = w.enter(parent, name); err != nil {
			return err
		}
	}
	described, err := w.inode(h)
	if err != nil {
		return err
	}
	n := w.inodes.At(id)
	described.links, described.of = n.links, n.of
	*n = described
	return nil
}

// inode returns the inode of a header, without its content and name.
func (w *Writer) inode(h *tar.Header) (n inode, err error) {
	n = inode{mode: uint16(h.Mode & 0o7777), mtime: uint32(min(max(h.ModTime.Unix(), 0), math.MaxUint32))}
	switch h.Typeflag {
	case tar.TypeDir:
		n.kind = folder
	case tar.TypeReg:
		n.kind = regular
	case tar.TypeSymlink:
		n.kind, n.mode = symlink, 0o777
		if h.Linkname == "" || len(h.Linkname) > maxPath || strings.ContainsRune(h.Linkname, 0) {
			return n, refuse("the symbolic link %s has no valid target", quoted(h.Name))
		}
		if n.of, err = w.texts.Add(h.Linkname); err != nil {
			return n, w.full(err)
		}
	case tar.TypeBlock, tar.TypeChar:
		n.kind, n.of = blockDevice, device(h)
		if h.Typeflag == tar.TypeChar {
			n.kind = charDevice
		}
	case tar.TypeFifo:
		n.kind = fifo
	default:
		return n, refuse("%s is of the unknown type %q", quoted(h.Name), h.Typeflag)
	}
	return n, w.describe(&n, h)
}

// describe sets the attributes that all types have.
func (w *Writer) describe(n *inode, h *tar.Header) (err error) {
	if n.owner, err = w.identity(h.Uid); err != nil {
		return err
	}
	if n.group, err = w.identity(h.Gid); err != nil {
		return err
	}
	n.attributes, err = w.attributesOf(h.PAXRecords)
	return err
}

// device returns a device's number in the kernel's format.
func device(h *tar.Header) uint32 {
	major, minor := uint32(h.Devmajor), uint32(h.Devminor)
	return minor&0xff | major&0xfff<<8 | minor&^0xff<<12
}

// identity returns the index of a user or group in the image's list.
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

// quoted quotes an external name for a message.
func quoted(s string) string {
	const most = 120
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
