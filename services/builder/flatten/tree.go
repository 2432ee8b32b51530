package flatten

import (
	"archive/tar"
	"strings"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/internal/layertar"
)

// entryID identifies an entry by the numbers of its layer and of the entry in it.
type entryID struct{ layer, entry int32 }

// noEntry returns the id of a directory that has no entry.
func noEntry() entryID { return entryID{-1, -1} }

// node is a name in the tree. It holds no pointers.
type node struct {
	place
	// at is the entry that created the node, and inode the one with its content: another
	// one for a hard link.
	at, inode entryID
	// touched is the last layer that added something at this path or below, and dropped the
	// last that removed earlier layers' content below.
	touched, dropped int32
	isDir            bool
	// leftOut marks a device: it hides lower entries and is not written.
	leftOut bool
	// gone marks a name that was removed or replaced by another node.
	gone bool
}

func newDir(at entryID, layer int32) node {
	return node{at: at, inode: at, touched: layer, dropped: -1, isDir: true}
}

// tree holds the names of all layers that were applied so far.
type tree struct {
	*names
	nodes *arena.Table[node]
}

func newTree(n *names) (*tree, error) {
	t := &tree{names: n, nodes: arena.NewTable[node](n.memory)}
	n.use(func(id uint32) *place { return &t.nodes.At(id).place })
	_, root, err := t.nodes.Add()
	if err == nil {
		*root = newDir(noEntry(), -1)
	}
	return t, n.full(err)
}

// child returns the node of a name in a directory; nil if it does not exist.
func (t *tree) child(parent uint32, name string) (uint32, *node) {
	if id, ok := t.find(parent, name); ok {
		if n := t.nodes.At(id); !n.gone {
			return id, n
		}
	}
	return 0, nil
}

// put creates a node for a name in a directory, and replaces an existing one.
func (t *tree) put(parent uint32, name string, made node) (uint32, *node, error) {
	id, n, err := t.nodes.Add()
	if err != nil {
		return 0, nil, t.full(err)
	}
	*n = made
	old, ok := t.find(parent, name)
	if !ok {
		return id, n, t.add(parent, id, name)
	}
	if o := t.nodes.At(old); o.gone {
		err = t.countName(name)
	} else {
		o.gone = true
	}
	t.replace(old, id)
	return id, n, err
}

// lookup returns nil if the path does not exist.
func (t *tree) lookup(path string) (id uint32, n *node) {
	n = t.nodes.At(0)
	for path != "" && n != nil {
		var name string
		name, path, _ = strings.Cut(path, "/")
		id, n = t.child(id, name)
	}
	return id, n
}

// apply adds an entry to the tree.
func (t *tree) apply(at entryID, h *tar.Header) error {
	path, dir, name, err := locate(h)
	switch {
	case err != nil:
		return err
	case layertar.IsWhiteout(name):
		return t.remove(at.layer, dir, name)
	case path == "":
		root := t.nodes.At(0)
		root.at, root.inode, root.touched = at, at, at.layer
		return nil
	}
	var target *node // looked up before the new name may replace it
	if h.Typeflag == tar.TypeLink {
		if target, err = t.target(h); err != nil {
			return err
		}
	}
	parent, err := t.parent(dir, at.layer)
	if err != nil {
		return err
	}
	return t.place(parent, name, at, h.Typeflag, target)
}

// place adds an entry to its directory.
func (t *tree) place(parent uint32, name string, at entryID, kind byte, target *node) error {
	_, old := t.child(parent, name)
	made := node{at: at, inode: at, touched: at.layer, leftOut: isDevice(kind)}
	switch {
	case kind == tar.TypeDir && old != nil && old.isDir:
		old.at, old.inode, old.touched = at, at, at.layer
		return nil
	case kind == tar.TypeDir:
		made = newDir(at, at.layer)
	case target != nil && target == old: // a name that links to itself
		return nil
	case target != nil:
		made.inode, made.leftOut = target.inode, target.leftOut
	}
	_, _, err := t.put(parent, name, made)
	return err
}

// target returns the target of a hard link.
func (t *tree) target(h *tar.Header) (*node, error) {
	path, err := clean(h.Linkname)
	if err != nil {
		return nil, err
	}
	_, n := t.lookup(path)
	switch {
	case n == nil:
		return nil, refuse("has a hard link %s to %s, which is not in the image", quoted(h.Name), quoted(h.Linkname))
	case n.isDir:
		return nil, refuse("has a hard link %s to the directory %s", quoted(h.Name), quoted(h.Linkname))
	}
	return n, nil
}

// parent returns the directory of a new entry, and creates it if needed. A file or link of
// an earlier layer is replaced. Within one layer, an entry behind a link is rejected, since
// it would be written to the link's target.
func (t *tree) parent(dir string, layer int32) (id uint32, err error) {
	t.nodes.At(0).touched = layer
	for rest := dir; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		below, next := t.child(id, name)
		if next != nil && !next.isDir && next.at.layer == layer {
			return 0, refuse("has entries below %s, which is not a directory in the same layer", quoted(strings.TrimSuffix(dir, "/"+rest)))
		}
		if next == nil || !next.isDir {
			if below, next, err = t.put(id, name, newDir(noEntry(), layer)); err != nil {
				return 0, err
			}
		}
		next.touched = layer
		id = below
	}
	return id, nil
}

// remove applies a whiteout. It hides entries of earlier layers, and none of its own layer.
func (t *tree) remove(layer int32, dir, name string) error {
	hidden, all, err := layertar.ParseWhiteout(name)
	if err != nil {
		return err
	}
	parent, n := t.lookup(dir)
	switch {
	case n == nil || !n.isDir:
	case all:
		t.empty(parent, layer)
	case hidden != "":
		if id, child := t.child(parent, hidden); child != nil {
			t.drop(id, layer)
		}
	}
	return nil
}

// drop removes the entries of earlier layers at a name.
func (t *tree) drop(id uint32, layer int32) {
	n := t.nodes.At(id)
	switch {
	case n.gone:
	case n.touched < layer:
		n.gone = true
	case n.isDir:
		if n.at.layer < layer {
			n.at, n.inode = noEntry(), noEntry()
		}
		t.empty(id, layer)
	}
}

// empty removes the entries of earlier layers below a directory. Once per layer is enough,
// since entries that the layer adds later are its own.
func (t *tree) empty(dir uint32, layer int32) {
	n := t.nodes.At(dir)
	if n.dropped == layer {
		return
	}
	n.dropped = layer
	for id := n.below; id != 0; id = t.nodes.At(id).next {
		t.drop(id, layer)
	}
}
