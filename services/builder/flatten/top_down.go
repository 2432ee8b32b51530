package flatten

import (
	"archive/tar"
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"slipway.dev/services/internal/layertar"
)

// pathState is what is known of a path that some layer has an entry for. Layers are
// numbered from 1, the lowest; 0 is none.
type pathState struct {
	// hidden is the topmost layer that hides what lower ones have here and below: it
	// removed it, or has something here that is no directory. emptied is the topmost
	// that hides only what they have below.
	hidden, emptied int32
	// touched is the last layer with an entry here or below, solid the last with one
	// here that is no directory, described the one whose directory was written.
	touched, solid, described int32
	kind                      kind
	// content is where the content was written, for a hard link; "" is here.
	content string
	below   map[string]*pathState
}

// kind is what the image has at a path, as far as that is known.
type kind int8

const (
	unknown kind = iota
	directory
	leaf // anything else
	leftOut
)

// topDownWriter goes through the layers from the topmost down, and writes each entry that
// nothing above has hidden.
type topDownWriter struct {
	output
	root  *pathState
	names names
}

// at is a name below n, which is made where nobody has named it yet.
func (f *topDownWriter) at(n *pathState, base string) (*pathState, error) {
	if next := n.below[base]; next != nil {
		return next, nil
	}
	base, err := f.names.keep(base)
	if err != nil {
		return nil, err
	}
	if n.below == nil {
		n.below = map[string]*pathState{}
	}
	next := &pathState{}
	n.below[base] = next
	return next, nil
}

func (f *topDownWriter) entry(layer int32, h *tar.Header, content io.Reader) error {
	path, dir, base, err := locate(h)
	if err != nil {
		return err
	}
	if layertar.IsWhiteout(base) {
		return f.remove(layer, dir, base)
	}
	n := f.root
	if path != "" {
		parent, err := f.reach(layer, dir)
		if parent == nil || err != nil {
			return err
		}
		if n, err = f.at(parent, base); err != nil {
			return err
		}
	}
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

// reach is a directory that gets an entry; nil when what a layer has there is
// hidden. The directories on the way are in the image in any case.
func (f *topDownWriter) reach(layer int32, dir string) (*pathState, error) {
	for n, rest := f.root, dir; ; {
		switch {
		case n.hidden > layer:
			return nil, nil
		case n.solid == layer:
			return nil, ErrTwice // which refuses it
		}
		n.touched, n.kind = layer, directory
		if n.emptied > layer {
			return nil, nil
		}
		if rest == "" {
			return n, nil
		}
		var base string
		base, rest, _ = strings.Cut(rest, "/")
		var err error
		if n, err = f.at(n, base); err != nil {
			return nil, err
		}
	}
}

func (f *topDownWriter) directory(layer int32, n *pathState, h *tar.Header) error {
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

// leaf writes what is no directory.
func (f *topDownWriter) leaf(layer int32, n *pathState, h *tar.Header, path string, content io.Reader) error {
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
	target := f.lookup(to)
	if target == nil || target == n || target.solid != layer {
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
	if n.content, err = f.names.keep(cmp.Or(target.content, to)); err != nil {
		return err
	}
	return f.link(path, n.content)
}

// lookup returns nil for what no layer has named.
func (f *topDownWriter) lookup(path string) *pathState {
	n := f.root
	for path != "" && n != nil {
		var base string
		base, path, _ = strings.Cut(path, "/")
		n = n.below[base]
	}
	return n
}

// remove obeys a whiteout.
func (f *topDownWriter) remove(layer int32, dir, base string) error {
	hidden, all, err := layertar.HiddenBy(base)
	if err != nil || hidden == "" && !all {
		return err
	}
	n := f.root
	for rest := dir; ; {
		if n.hidden > layer || n.emptied > layer {
			return nil // it is hidden itself
		}
		if rest == "" {
			break
		}
		var next string
		next, rest, _ = strings.Cut(rest, "/")
		if n, err = f.at(n, next); err != nil {
			return err
		}
	}
	if all {
		n.emptied = max(n.emptied, layer)
		return nil
	}
	if n, err = f.at(n, hidden); err == nil {
		n.hidden = max(n.hidden, layer)
	}
	return err
}

// rest writes the directories that no entry describes.
func (f *topDownWriter) rest(path string, n *pathState) error {
	if n.described == 0 && path != "" {
		if err := f.implied(path); err != nil {
			return err
		}
	}
	for _, base := range slices.Sorted(maps.Keys(n.below)) {
		if child := n.below[base]; child.kind == directory {
			if err := f.rest(join(path, base), child); err != nil {
				return err
			}
		}
	}
	return nil
}
