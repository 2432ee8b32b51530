package erofs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/internal/limits"
)

// An Entry is a file or a symbolic link of a Tree.
type Entry struct {
	// Mode is ModeFile or ModeLink, with the permissions.
	Mode uint16
	// Mtime is the time of the last change in seconds since 1970.
	Mtime int64
	// Target is the target of a link, which is not empty.
	Target string
	// Size is the length of a file in bytes. Its contents begin at block Block of device Device;
	// those of an Embedded file are Data.
	Size   uint64
	Device int
	Block  uint32
	Data   []byte
}

// Limits of trees. The kernel has the same limit of names, and counts blocks in 32 bits.
const (
	maxName   = 255
	maxTarget = 4095
	// maxDevices is the maximum number of devices: the root's inode is behind their table, and
	// has a number of 16 bits.
	maxDevices = 10_000
)

// A Tree is a tree of files that is being encoded. Directories have the permissions 0755 and the
// time 0.
type Tree struct {
	root  *node
	nodes []node // unused nodes, allocated together
	count int
}

// A node is an inode. Hard links are several names of one node.
type node struct {
	Entry
	links    []link           // of a directory, sorted when the tree is encoded or merged
	byName   map[string]*node // of a directory, while entries are added
	isSorted bool

	nlink  uint32
	ino    uint32
	nid    uint64
	data   uint64 // first block of contents in the image
	blocks [][]byte
}

type link struct {
	name string
	node *node
}

func (n *node) isDir() bool { return n.Mode&ModeType == ModeDir }

// NewTree returns a tree that has only the root directory.
func NewTree() *Tree {
	t := &Tree{}
	t.root = t.newDir()
	return t
}

func (t *Tree) newNode(e Entry) *node {
	if len(t.nodes) == 0 {
		t.nodes = make([]node, 512)
	}
	n := &t.nodes[0]
	t.nodes = t.nodes[1:]
	t.count++
	n.Entry = e
	return n
}

func (t *Tree) newDir() *node { return t.newNode(Entry{Mode: ModeDir | 0o755}) }

// Add adds a file or a link at a path such as "bin/python", and creates its parent directories. It
// replaces an earlier file or link. It returns an error if the path or one of its parents exists
// with another type, or is malformed.
func (t *Tree) Add(path string, e Entry) error {
	if reason := e.check(); reason != "" {
		return refuse("%.200q: %s", path, reason)
	}
	return t.put(path, t.newNode(e))
}

// Link adds a further name of the file at the path target.
func (t *Tree) Link(path, target string) error {
	n, err := t.find(target)
	if err != nil {
		return err
	}
	if n == nil || n.isDir() {
		return refuse("%.200q is a hard link to %.200q, which is no earlier file", path, target)
	}
	return t.put(path, n)
}

// Dir adds a directory and its parents, unless they exist.
func (t *Tree) Dir(path string) error {
	_, err := t.dir(path)
	return err
}

// check returns the reason why an entry cannot be encoded, or "".
func (e Entry) check() string {
	switch {
	case e.Mode&^(ModeType|0o777) != 0:
		return "it has a mode with more than permissions"
	case e.Mode&ModeType == ModeLink:
		if e.Target == "" || len(e.Target) > maxTarget || strings.ContainsRune(e.Target, 0) {
			return "the target of the link is empty, too long or has a zero byte"
		}
	case e.Mode&ModeType != ModeFile || e.Target != "":
		return "it is neither a file nor a link"
	case e.Device < Embedded || e.Size > maxSize:
		return "it is too large"
	case e.Device == Embedded && e.Size != uint64(len(e.Data)):
		return "its size is not that of its contents"
	}
	return ""
}

// maxSize is the maximum size of a file in bytes: a device has 2^32 blocks.
const maxSize = 1 << 43

func (t *Tree) put(path string, n *node) error {
	parent, name := t.root, path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		var err error
		if parent, err = t.dir(path[:i]); err != nil {
			return err
		}
		name = path[i+1:]
	}
	if !isName(name) {
		return refuse("%.200q: %.300q is no name of a file", path, name)
	}
	parent.mapNames()
	old := parent.byName[name]
	switch {
	case old == nil:
		parent.links = append(parent.links, link{name, n})
		parent.isSorted = false
	case old.isDir():
		return refuse("%.200q is both a directory and a file", path)
	default:
		i := slices.IndexFunc(parent.links, func(l link) bool { return l.name == name })
		parent.links[i].node = n
	}
	parent.byName[name] = n
	return nil
}

// dir returns the directory at a path, and creates it and its parents if needed.
func (t *Tree) dir(path string) (*node, error) {
	d, depth := t.root, 0
	for name := range strings.SplitSeq(path, "/") {
		if depth++; depth > limits.MountDepth {
			return nil, refuse("%.200q has more than %d directories inside each other", path, limits.MountDepth)
		}
		if !isName(name) {
			return nil, refuse("%.200q: %.300q is no name of a directory", path, name)
		}
		d.mapNames()
		next := d.byName[name]
		if next == nil {
			next = t.newDir()
			d.links = append(d.links, link{name, next})
			d.byName[name], d.isSorted = next, false
		}
		if !next.isDir() {
			return nil, refuse("%.200q is both a directory and a file", path)
		}
		d = next
	}
	return d, nil
}

// find returns the node at a path, or nil if it does not exist.
func (t *Tree) find(path string) (*node, error) {
	n := t.root
	for name := range strings.SplitSeq(path, "/") {
		if !n.isDir() {
			return nil, nil
		}
		n.mapNames()
		if n = n.byName[name]; n == nil {
			return nil, nil
		}
	}
	return n, nil
}

func isName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName && !strings.ContainsAny(name, "/\x00")
}

// mapNames prepares byName.
func (n *node) mapNames() {
	if n.byName != nil {
		return
	}
	n.byName = make(map[string]*node, len(n.links))
	for _, l := range n.links {
		n.byName[l.name] = l.node
	}
}

func (n *node) sort() {
	if !n.isSorted {
		slices.SortFunc(n.links, func(a, b link) int { return cmp.Compare(a.name, b.name) })
		n.isSorted = true
	}
}

// Merge adds the entries of an index, whose first device becomes device number shift of the tree.
// Entries of the index replace files and links of the tree. A path that is a directory in one of
// them and a file in the other is an error.
func (t *Tree) Merge(x *Index, shift int) error {
	m := merger{Tree: t, x: x, shift: shift, files: map[uint64]*node{}, folders: map[uint64]bool{}, names: len(x.image) / (direntSize + 1)}
	return m.dir(x.Root(), x.Root(), t.root, 0)
}

// A merger reads the tree of an index. It refuses a directory with two parents, so that it reads
// each directory once.
type merger struct {
	*Tree
	x       *Index
	shift   int
	files   map[uint64]*node // files with several names, by inode
	folders map[uint64]bool  // inodes of directories
	names   int              // number of names that an index of this size may still have
}

// dir adds the entries of a directory of the index to into.
func (m *merger) dir(nid, parent uint64, into *node, depth int) error {
	if depth > limits.MountDepth || m.folders[nid] {
		return errBroken
	}
	m.folders[nid] = true
	into.sort()
	into.byName = nil
	f := folder{merger: m, nid: nid, parent: parent, into: into, depth: depth}
	if err := errors.Join(m.x.Each(nid, 0, f.visit), f.err); err != nil {
		return err
	}
	if f.dots != 2 {
		return errBroken
	}
	into.links = mergeLinks(into.links, f.added)
	return nil
}

// A folder is a directory of an index while its names are merged into a directory of a tree. Both
// are sorted.
type folder struct {
	*merger
	nid, parent uint64
	into        *node
	depth       int

	at    int    // position in the links of into
	last  string // the name before
	dots  int    // number of the names "." and ".."
	added []link // names that into does not have
	err   error
}

// visit merges one name. It returns false after an error.
func (f *folder) visit(name string, nid uint64, kind byte, _ uint64) bool {
	f.names--
	isDot := name == "." && nid == f.nid || name == ".." && nid == f.parent
	if f.names < 0 || name <= f.last || !isDot && !isName(name) || isDot && kind != KindDir {
		f.err = errBroken
		return false
	}
	f.last = name
	if isDot {
		f.dots++
		return true
	}
	for f.at < len(f.into.links) && f.into.links[f.at].name < name {
		f.at++
	}
	var old *link
	if f.at < len(f.into.links) && f.into.links[f.at].name == name {
		old = &f.into.links[f.at]
	}
	n, err := f.entry(nid, kind, old)
	switch {
	case err != nil:
		f.err = fmt.Errorf("%.200q: %w", name, err)
	case old != nil:
		old.node = n
	default:
		f.added = append(f.added, link{name, n})
	}
	return err == nil
}

// entry returns the node of an inode of the index. If it is a directory and old is one, too, the
// result is old with the entries of both.
func (f *folder) entry(nid uint64, kind byte, old *link) (*node, error) {
	i, ok := f.x.Inode(nid)
	if !ok || kindOf(i.Mode) != kind {
		return nil, errBroken
	}
	if old != nil && old.node.isDir() != (kind == KindDir) {
		return nil, refuse("it is a directory of one package, and a file of another")
	}
	if kind == KindDir {
		d := f.newDirOr(old)
		return d, f.dir(nid, f.nid, d, f.depth+1)
	}
	if n := f.files[nid]; n != nil {
		return n, nil
	}
	e, err := f.x.entry(nid, i)
	if err != nil {
		return nil, err
	}
	if e.Device != Embedded {
		e.Device += f.shift
	}
	if f.count >= limits.MountFiles {
		return nil, refuse("there are more than %d files and directories", limits.MountFiles)
	}
	n := f.newNode(e)
	f.files[nid] = n
	return n, nil
}

func (m *merger) newDirOr(old *link) *node {
	if old != nil {
		return old.node
	}
	d := m.newDir()
	d.isSorted = true
	return d
}

// mergeLinks merges two sorted lists without common names.
func mergeLinks(a, b []link) []link {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make([]link, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].name < b[0].name {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
