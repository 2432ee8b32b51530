// Package flatten merges the layers of an image into one tree, and writes it as a file
// system or as a tar.
//
// Write reads the layers as streams from the topmost down, so that an entry is hidden only by
// entries that were read before. WriteTwice handles layers for which that is not enough. Both
// hold names in memory, outside the heap and within a budget, and store nothing on disk.
// Layers are untrusted: entries outside the image and excessive sizes are rejected. The
// output depends on the layers only: the same layers produce the same bytes. The rules are
// those of the OCI image specification's layer.md ("Applying Changesets").
package flatten

import (
	"archive/tar"
	"context"
	"errors"
	"io"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/internal/layertar"
)

// Layer is one layer of an image.
type Layer = layertar.Layer

// Limits bound the size of an image; zero means no limit.
type Limits struct {
	// Bytes limits the total unpacked size.
	Bytes int64
	// Entries limits the number of entries in all layers.
	Entries int
	// Names limits the number of names in memory: those of entries, of their parent
	// directories, and of whiteouts. NameBytes limits their total length. One entry can
	// have two thousand parent directories.
	Names     int
	NameBytes int64
	// Memory limits the memory for names and their state; nil means no limit.
	Memory *arena.Budget
}

// Summary describes the output.
type Summary struct {
	// Entries and Bytes are the number of names and the number of bytes in files.
	Entries int
	Bytes   int64
	// LeftOut is the number of omitted device nodes, which an ordinary user cannot create.
	LeftOut int
}

// A Refusal is returned for an image that cannot be flattened.
type Refusal = layertar.LayerError

// ErrTwice is returned by Write for layers that must be read completely before they can be
// written: layers with two entries of one name, or with hard links to files that are hidden
// by an upper layer or belong to a lower one. The output must then be discarded.
var ErrTwice = errors.New("the layers have to be read twice")

// Write writes the merged layers. The argument layers has the lowest layer first. Every
// directory has a header, possibly after its content. Every name is written once, and links
// follow their file. Write reads each layer once, or returns ErrTwice. A *Refusal is an
// error of the image; other errors come from Open, out or ctx.
func Write(ctx context.Context, out Output, layers []Layer, limits Limits) (Summary, error) {
	memory := arena.New(limits.Memory)
	defer memory.Close()
	f, err := newTopDownWriter(output{to: out}, newNames(memory, limits), len(layers))
	if err != nil {
		return Summary{}, err
	}
	r := newReader(limits)
	for i := len(layers) - 1; i >= 0; i-- {
		err := r.Each(ctx, layers[i], func(_ int, h *tar.Header, content io.Reader) error {
			return f.entry(int16(i)+1, h, content)
		})
		if err != nil {
			return Summary{}, err
		}
	}
	if err := f.rest("", 0); err != nil {
		return Summary{}, err
	}
	return f.summary, nil
}

// WriteTwice does the same for any layers and reads each twice: first the headers, which
// determine the entry of each path, then the content of these entries.
func WriteTwice(ctx context.Context, out Output, layers []Layer, limits Limits) (Summary, error) {
	memory := arena.New(limits.Memory)
	defer memory.Close()
	t, err := newTree(newNames(memory, limits))
	if err != nil {
		return Summary{}, err
	}
	r := newReader(limits)
	for i, l := range layers {
		err := r.Each(ctx, l, func(k int, h *tar.Header, _ io.Reader) error {
			return t.apply(entryID{int32(i), int32(k)}, h)
		})
		if err != nil {
			return Summary{}, err
		}
	}
	e := &emitter{output: output{to: out}, tree: t}
	if e.links, err = t.survivors(); err != nil {
		return Summary{}, err
	}
	r = newReader(limits)
	for i, l := range layers {
		err := r.Each(ctx, l, func(k int, h *tar.Header, content io.Reader) error {
			return e.entry(entryID{int32(i), int32(k)}, h, content)
		})
		if err != nil {
			return Summary{}, err
		}
	}
	if err := e.rest("", 0); err != nil {
		return Summary{}, err
	}
	return e.summary, nil
}

// newReader returns a reader that counts the entries and bytes of all layers together.
func newReader(l Limits) *layertar.Reader {
	return layertar.NewReader(layertar.Limits{Bytes: l.Bytes, Entries: l.Entries, Image: true})
}

func refuse(format string, args ...any) error { return layertar.Invalidf(format, args...) }
