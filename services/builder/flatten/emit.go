package flatten

import (
	"archive/tar"
	"io"
	"strings"
)

// link is the name under which the content of hard links is written.
type link struct {
	// first is the node of that name.
	first uint32
	// own reports whether the file itself has that name, and not a hard link to it.
	own bool
}

// linkCost is the approximate memory of a link in bytes.
const linkCost = 64

// survivors returns, for each file that has hard links in the image, the name under which
// its content is written.
func (t *tree) survivors() (map[entryID]link, error) {
	out := map[entryID]link{}
	var err error
	t.walk(0, func(id uint32, n *node) {
		if err != nil || n.isDir || n.leftOut || n.at == n.inode {
			return
		}
		l, ok := out[n.inode]
		if !ok {
			err = t.full(t.memory.Charge(linkCost))
		}
		if !ok || t.path(id) < t.path(l.first) {
			out[n.inode] = link{first: id}
		}
	})
	if len(out) == 0 || err != nil {
		return out, err
	}
	t.walk(0, func(id uint32, n *node) {
		if _, ok := out[n.inode]; ok && n.at == n.inode {
			out[n.inode] = link{first: id, own: true}
		}
	})
	return out, nil
}

// walk calls f for every node below a directory, in any order.
func (t *tree) walk(dir uint32, f func(id uint32, n *node)) {
	for id := t.nodes.At(dir).below; id != 0; {
		n := t.nodes.At(id)
		if !n.gone {
			f(id, n)
			t.walk(id, f)
		}
		id = n.next
	}
}

// join returns the path of a name in a directory.
func join(dir, name string) string {
	if dir == "" {
		return strings.Clone(name)
	}
	return dir + "/" + name
}

// emitter writes the entries that are not hidden.
type emitter struct {
	output
	tree  *tree
	links map[entryID]link
}

// entry writes an entry under its final name, if it has one.
func (e *emitter) entry(at entryID, h *tar.Header, content io.Reader) error {
	path, err := clean(h.Name)
	if err != nil {
		return err
	}
	id, n := e.tree.lookup(path)
	won := n != nil && n.at == at && !n.leftOut
	l, linked := e.links[at]
	switch {
	case h.Typeflag == tar.TypeLink && !won:
		return nil
	case h.Typeflag == tar.TypeLink:
		if l := e.links[n.inode]; l.first != id {
			return e.link(path, e.tree.path(l.first))
		}
		return nil // already written with its content
	case won:
		return e.write(header(h, path), content)
	case linked && !l.own: // its own name was removed
		return e.write(header(h, e.tree.path(l.first)), content)
	}
	return nil
}

// rest writes the directories that have no entry, and counts what is left out.
func (e *emitter) rest(path string, dir uint32) error {
	if e.tree.nodes.At(dir).at == noEntry() && path != "" {
		if err := e.implied(path); err != nil {
			return err
		}
	}
	for _, id := range e.tree.sorted(dir) {
		n := e.tree.nodes.At(id)
		if n.gone {
			continue
		}
		if n.leftOut {
			e.summary.LeftOut++
		}
		if n.isDir {
			if err := e.rest(join(path, e.tree.name(id)), id); err != nil {
				return err
			}
		}
	}
	return nil
}
