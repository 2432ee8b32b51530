package flatten

import (
	"archive/tar"
	"io"
	"maps"
	"slices"
)

// link says under which name the content of hard links is written.
type link struct {
	first string
	// own says that it is the name which came with the content.
	own bool
}

// survivors lists what hard links that are left lead to.
func (t *tree) survivors() map[entryID]link {
	out := map[entryID]link{}
	t.root.walk("", func(path string, n *node) {
		if n.isDir() || n.leftOut || n.at == n.inode {
			return
		}
		if l, ok := out[n.inode]; !ok || path < l.first {
			out[n.inode] = link{first: path}
		}
	})
	if len(out) == 0 {
		return out
	}
	t.root.walk("", func(path string, n *node) {
		if _, ok := out[n.inode]; ok && n.at == n.inode {
			out[n.inode] = link{first: path, own: true}
		}
	})
	return out
}

// walk calls f for everything below a directory, in any order.
func (n *node) walk(path string, f func(path string, n *node)) {
	for name, child := range n.children {
		below := join(path, name)
		f(below, child)
		child.walk(below, f)
	}
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// emitter writes the entries that won.
type emitter struct {
	output
	tree  *tree
	links map[entryID]link
}

// entry writes an entry under the name that it has in the end, if any.
func (e *emitter) entry(at entryID, h *tar.Header, content io.Reader) error {
	path, err := clean(h.Name)
	if err != nil {
		return err
	}
	n := e.tree.lookup(path)
	won := n != nil && n.at == at && !n.leftOut
	l, linked := e.links[at]
	switch {
	case h.Typeflag == tar.TypeLink && !won:
		return nil
	case h.Typeflag == tar.TypeLink:
		if l := e.links[n.inode]; l.first != path {
			return e.link(path, l.first)
		}
		return nil // it was written with its content
	case won:
		return e.write(header(h, path), content)
	case linked && !l.own: // its own name is gone
		return e.write(header(h, l.first), content)
	}
	return nil
}

// rest writes the directories that no entry names, and counts what is left out.
func (e *emitter) rest(path string, n *node) error {
	if n.at == nowhere() && path != "" {
		if err := e.implied(path); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		child := n.children[name]
		if child.leftOut {
			e.summary.LeftOut++
		}
		if child.isDir() {
			if err := e.rest(join(path, name), child); err != nil {
				return err
			}
		}
	}
	return nil
}
