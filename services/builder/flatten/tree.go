package flatten

import (
	"archive/tar"
	"strings"

	"slipway.dev/services/internal/layertar"
)

// entryID is an entry: the layer's number and the entry's in it.
type entryID struct{ layer, entry int32 }

// nowhere is the place of a directory that no entry names.
func nowhere() entryID { return entryID{-1, -1} }

// node is a name in the tree.
type node struct {
	// at is the entry that put it here, inode the one with its content: another for
	// a hard link.
	at, inode entryID
	// touched is the last layer that put something here or below, dropped the last
	// that removed what earlier layers had below.
	touched, dropped int32
	// leftOut is a device: it hides what was there, and is not written.
	leftOut bool
	// children are nil for anything but a directory.
	children map[string]*node
}

func (n *node) isDir() bool { return n.children != nil }

func newDir(at entryID, layer int32) *node {
	return &node{at: at, inode: at, touched: layer, dropped: -1, children: map[string]*node{}}
}

type tree struct {
	root  *node
	names names
}

func newTree(l Limits) *tree { return &tree{root: newDir(nowhere(), -1), names: names{limits: l}} }

// child is the name of a new entry in its directory, as a text by itself.
func (t *tree) child(parent *node, name string) (string, error) {
	if parent.children[name] != nil {
		return strings.Clone(name), nil
	}
	return t.names.keep(name)
}

// lookup returns nil for what is not there.
func (t *tree) lookup(path string) *node {
	n := t.root
	for path != "" && n != nil {
		var name string
		name, path, _ = strings.Cut(path, "/")
		n = n.children[name]
	}
	return n
}

// apply puts an entry into the tree.
func (t *tree) apply(at entryID, h *tar.Header) error {
	path, dir, name, err := locate(h)
	switch {
	case err != nil:
		return err
	case layertar.IsWhiteout(name):
		return t.remove(at.layer, dir, name)
	case path == "":
		t.root.at, t.root.inode, t.root.touched = at, at, at.layer
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
	if name, err = t.child(parent, name); err != nil {
		return err
	}
	t.place(parent, name, at, h.Typeflag, target)
	return nil
}

// place puts an entry into its directory.
func (t *tree) place(parent *node, name string, at entryID, kind byte, target *node) {
	old := parent.children[name]
	switch {
	case kind == tar.TypeDir && old != nil && old.isDir():
		old.at, old.inode, old.touched = at, at, at.layer
	case kind == tar.TypeDir:
		parent.children[name] = newDir(at, at.layer)
	case target != nil && target == old: // a name that is a link to itself
	case target != nil:
		parent.children[name] = &node{at: at, inode: target.inode, touched: at.layer, leftOut: target.leftOut}
	default:
		parent.children[name] = &node{at: at, inode: at, touched: at.layer, leftOut: isDevice(kind)}
	}
}

// target is what a hard link leads to.
func (t *tree) target(h *tar.Header) (*node, error) {
	path, err := clean(h.Linkname)
	if err != nil {
		return nil, err
	}
	n := t.lookup(path)
	switch {
	case n == nil:
		return nil, refuse("has a hard link %s to %s, which is not in the image", quoted(h.Name), quoted(h.Linkname))
	case n.isDir():
		return nil, refuse("has a hard link %s to the directory %s", quoted(h.Name), quoted(h.Linkname))
	}
	return n, nil
}

// parent is the directory of a new entry, made where it is missing. What an
// earlier layer has there as a file or a link gives way; within one layer an entry
// behind a link would be written to wherever that leads.
func (t *tree) parent(dir string, layer int32) (*node, error) {
	n := t.root
	n.touched = layer
	for rest := dir; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := n.children[name]
		switch {
		case next == nil:
			name, err := t.names.keep(name)
			if err != nil {
				return nil, err
			}
			next = newDir(nowhere(), layer)
			n.children[name] = next
		case !next.isDir() && next.at.layer == layer:
			return nil, refuse("has entries below %s, which it says is no directory", quoted(strings.TrimSuffix(dir, "/"+rest)))
		case !next.isDir():
			next = newDir(nowhere(), layer)
			n.children[strings.Clone(name)] = next
		}
		next.touched = layer
		n = next
	}
	return n, nil
}

// remove obeys a whiteout: it hides what earlier layers have put there, and nothing
// of its own layer.
func (t *tree) remove(layer int32, dir, name string) error {
	hidden, all, err := layertar.HiddenBy(name)
	if err != nil {
		return err
	}
	parent := t.lookup(dir)
	switch {
	case parent == nil || !parent.isDir():
	case all:
		parent.empty(layer)
	case hidden != "":
		parent.drop(hidden, layer)
	}
	return nil
}

// drop removes what layers before this one have put under a name.
func (n *node) drop(name string, layer int32) {
	child := n.children[name]
	switch {
	case child == nil:
	case child.touched < layer:
		delete(n.children, name)
	case child.isDir():
		if child.at.layer < layer {
			child.at, child.inode = nowhere(), nowhere()
		}
		child.empty(layer)
	}
}

// empty removes what layers before this one have put below. Once is enough for a
// layer: what it adds later is its own.
func (n *node) empty(layer int32) {
	if n.dropped == layer {
		return
	}
	n.dropped = layer
	for below := range n.children {
		n.drop(below, layer)
	}
}
