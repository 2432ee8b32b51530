package flatten

import (
	"archive/tar"
	"io"
	"math"
	"strings"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/internal/layertar"
)

// pathState is the state of a path that some layer has an entry for. Layers are numbered
// from 1, the lowest; 0 means none. It holds no pointers.
type pathState struct {
	place
	// content is the node under whose path a hard link's content was written; 0 is this
	// one.
	content uint32
	// hidden is the topmost layer that hides lower entries at this path and below: it
	// removed the path, or has an entry there that is no directory. emptied is the topmost
	// layer that hides only lower entries below.
	hidden, emptied int16
	// touched is the last layer with an entry at this path or below, solid the last with a
	// non-directory there, and described the one whose directory entry was written.
	touched, solid, described int16
	kind                      kind
}

// kind is the known type of a path in the image.
type kind int8

const (
	unknown kind = iota
	directory
	leaf // anything else
	leftOut
)

// topDownWriter reads the layers from the topmost down, and writes each entry that no upper
// layer hides.
type topDownWriter struct {
	output
	*names
	nodes *arena.Table[pathState]
}

func newTopDownWriter(out output, n *names, layers int) (*topDownWriter, error) {
	if layers >= math.MaxInt16 {
		return nil, errLayers
	}
	f := &topDownWriter{output: out, names: n, nodes: arena.NewTable[pathState](n.memory)}
	n.use(func(id uint32) *place { return &f.nodes.At(id).place })
	_, _, err := f.nodes.Add() // the root
	return f, n.full(err)
}

// child returns the node of a name, and adds it if no layer has named it yet.
func (f *topDownWriter) child(parent uint32, base string) (uint32, error) {
	if id, ok := f.find(parent, base); ok {
		return id, nil
	}
	id, _, err := f.nodes.Add()
	if err != nil {
		return 0, f.full(err)
	}
	return id, f.add(parent, id, base)
}

func (f *topDownWriter) entry(layer int16, h *tar.Header, content io.Reader) error {
	path, dir, base, err := locate(h)
	if err != nil {
		return err
	}
	if layertar.IsWhiteout(base) {
		return f.remove(layer, dir, base)
	}
	id := uint32(0)
	if path != "" {
		parent, visible, err := f.reach(layer, dir)
		if !visible || err != nil {
			return err
		}
		if id, err = f.child(parent, base); err != nil {
			return err
		}
	}
	n := f.nodes.At(id)
	if n.hidden > layer {
		return nil
	}
	if h.Typeflag == tar.TypeDir {
		return f.directory(layer, n, header(h, path))
	}
	if n.touched == layer {
		return ErrTwice
	}
	isBelow := n.kind == directory // of an upper layer
	n.touched, n.solid, n.hidden = layer, layer, layer
	if isBelow {
		return nil
	}
	return f.leaf(layer, n, h, path, content)
}

// reach returns the directory of an entry. The result visible is false if this layer's
// content of the directory is hidden. All parent directories are in the image in any case.
func (f *topDownWriter) reach(layer int16, dir string) (id uint32, visible bool, err error) {
	for rest := dir; ; {
		n := f.nodes.At(id)
		switch {
		case n.hidden > layer:
			return 0, false, nil
		case n.solid == layer:
			return 0, false, ErrTwice // WriteTwice rejects it
		}
		n.touched, n.kind = layer, directory
		if n.emptied > layer {
			return 0, false, nil
		}
		if rest == "" {
			return id, true, nil
		}
		var base string
		base, rest, _ = strings.Cut(rest, "/")
		if id, err = f.child(id, base); err != nil {
			return 0, false, err
		}
	}
}

func (f *topDownWriter) directory(layer int16, n *pathState, h *tar.Header) error {
	if n.solid == layer || n.described == layer {
		return ErrTwice
	}
	n.touched, n.kind = layer, directory
	if n.described != 0 {
		return nil
	}
	n.described = layer
	return f.write(h, nil)
}

// leaf writes an entry that is no directory.
func (f *topDownWriter) leaf(layer int16, n *pathState, h *tar.Header, path string, content io.Reader) error {
	n.kind = leaf
	if h.Typeflag != tar.TypeLink {
		if isDevice(h.Typeflag) {
			n.kind = leftOut
			f.summary.LeftOut++
			return nil
		}
		return f.write(header(h, path), content)
	}
	to, err := clean(h.Linkname)
	if err != nil {
		return err
	}
	at, ok := f.lookup(to)
	if !ok {
		return ErrTwice
	}
	target := f.nodes.At(at)
	if target == n || target.solid != layer {
		return ErrTwice
	}
	n.kind = target.kind
	if n.kind == leftOut {
		f.summary.LeftOut++
		return nil
	}
	if n.kind != leaf { // an upper layer has a directory there
		return ErrTwice
	}
	if n.content = at; target.content != 0 {
		n.content = target.content
	}
	return f.link(path, f.path(n.content))
}

// lookup returns the node of a path, or false if no layer has named it.
func (f *topDownWriter) lookup(path string) (id uint32, ok bool) {
	for ok = true; path != "" && ok; {
		var base string
		base, path, _ = strings.Cut(path, "/")
		id, ok = f.find(id, base)
	}
	return id, ok
}

// remove applies a whiteout.
func (f *topDownWriter) remove(layer int16, dir, base string) error {
	hidden, all, err := layertar.ParseWhiteout(base)
	if err != nil || hidden == "" && !all {
		return err
	}
	id, n := uint32(0), f.nodes.At(0)
	for rest := dir; ; n = f.nodes.At(id) {
		if n.hidden > layer || n.emptied > layer {
			return nil // it is hidden itself
		}
		if rest == "" {
			break
		}
		var next string
		next, rest, _ = strings.Cut(rest, "/")
		if id, err = f.child(id, next); err != nil {
			return err
		}
	}
	if all {
		n.emptied = max(n.emptied, layer)
		return nil
	}
	if id, err = f.child(id, hidden); err != nil {
		return err
	}
	n = f.nodes.At(id)
	n.hidden = max(n.hidden, layer)
	return nil
}

// rest writes the directories that have no entry.
func (f *topDownWriter) rest(path string, id uint32) error {
	if f.nodes.At(id).described == 0 && path != "" {
		if err := f.implied(path); err != nil {
			return err
		}
	}
	for _, child := range f.sorted(id) {
		if f.nodes.At(child).kind == directory {
			if err := f.rest(join(path, f.name(child)), child); err != nil {
				return err
			}
		}
	}
	return nil
}
