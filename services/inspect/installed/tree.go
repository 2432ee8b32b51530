package installed

import (
	"iter"
	"maps"
	"strings"
)

// A node represents a path of an image: a file with records, or a folder above such files. The zero value is an empty folder.
// Only paths of records have nodes, so that the size of a tree is bounded by the number of records.
type node struct {
	children map[string]*node
	file     *file // nil for a folder
}

// A file is a file with records.
type file struct {
	kind    Kind
	records []Record
	// unreadable reports whether the file, or one of its records, could not be read.
	unreadable bool
	layer      string
}

// parts returns the components of a clean path.
func parts(name string) iter.Seq[string] { return strings.SplitSeq(name, "/") }

// find returns the node of a path; nil if it does not exist.
func (n *node) find(name string) *node {
	if name == "" {
		return n
	}
	for part := range parts(name) {
		if n = n.children[part]; n == nil {
			return nil
		}
	}
	return n
}

// put sets a record.
func (n *node) put(name string, f *file) {
	for part := range parts(name) {
		child := n.children[part]
		if child == nil {
			child = &node{}
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[part] = child
		}
		child.file = nil // a file that is now a folder
		n = child
	}
	n.file, n.children = f, nil
}

// remove removes a path and everything below it.
func (n *node) remove(name string) {
	dir, base := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, base = name[:i], name[i+1:]
	}
	if parent := n.find(dir); parent != nil {
		delete(parent.children, base)
	}
}

// removeFile removes a record, but not a folder.
func (n *node) removeFile(name string) {
	if at := n.find(name); at != nil && at.file != nil {
		n.remove(name)
	}
}

// empty removes everything below a path.
func (n *node) empty(name string) {
	if at := n.find(name); at != nil {
		at.children = nil
	}
}

// merge adds the records of the layer above. The whiteouts and other entries of that layer must have
// been applied before.
func (n *node) merge(above *node) {
	for part, child := range above.children {
		own := n.children[part]
		if own == nil || child.file != nil {
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[part] = child
			continue
		}
		own.file = nil
		own.merge(child)
	}
}

// clone returns a copy of the tree. Files are shared, since they do not change.
func (n *node) clone() *node {
	out := &node{file: n.file}
	for part, child := range n.children {
		if out.children == nil {
			out.children = make(map[string]*node, len(n.children))
		}
		out.children[part] = child.clone()
	}
	return out
}

// walk calls f for every record with its absolute path.
func (n *node) walk(name string, f func(name string, r *file)) {
	if n.file != nil {
		f(name, n.file)
	}
	for part := range maps.Keys(n.children) {
		n.children[part].walk(name+"/"+part, f)
	}
}
