// Package flatten makes one tree of an image's layers, and writes it as a file system
// or as one tar.
//
// It reads the layers as streams, the topmost first, so that what an entry meets is
// what hides it. It keeps names in memory and nothing on disk. It trusts no layer:
// what would be written outside the image, or is out of proportion, is refused. What
// it writes follows from the layers alone: the same layers, the same bytes. The
// truth is the OCI image specification's layer.md ("Applying Changesets").
package flatten

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"

	"slipway.dev/services/internal/layertar"
)

// Layer is one layer of an image.
type Layer = layertar.Layer

// Limits are how large an image may be; a zero is no limit.
type Limits struct {
	// Bytes is the length of all that is unpacked.
	Bytes int64
	// Entries is the number of entries in all layers.
	Entries int
	// Names is the number of names that are in memory: those of entries, of the
	// directories on the way to them, and of what layers remove; NameBytes is their
	// length. One entry can have two thousand directories on its way.
	Names     int
	NameBytes int64
}

// Summary says what was written.
type Summary struct {
	// Entries and Bytes are what the image holds: names, and bytes in files.
	Entries int
	Bytes   int64
	// LeftOut counts names of device nodes, which no ordinary user can make.
	LeftOut int
}

// Refusal is an image that cannot be flattened, whatever one does.
type Refusal = layertar.Refusal

// ErrTwice is the answer of Write to layers that have to be known before they can
// be written: those with two entries of one name, or with hard links to what an
// upper layer hides or a lower one has. What was written is of no use then.
var ErrTwice = errors.New("the layers have to be read twice")

// Write writes what the layers, lowest first, amount to. Every directory comes
// with a header, though maybe after what is in it; every name once; links to a
// file after the file. It reads each layer once, or answers ErrTwice. A *Refusal is
// the image's fault; other errors are those of Open, of out, or of ctx.
func Write(ctx context.Context, out Output, layers []Layer, limits Limits) (Summary, error) {
	f := &topDownWriter{output: output{to: out}, root: &pathState{}, names: names{limits: limits}}
	r := newReader(limits)
	for i := len(layers) - 1; i >= 0; i-- {
		err := r.Each(ctx, layers[i], func(_ int, h *tar.Header, content io.Reader) error {
			return f.entry(int32(i)+1, h, content)
		})
		if err != nil {
			return Summary{}, err
		}
	}
	if err := f.rest("", f.root); err != nil {
		return Summary{}, err
	}
	return f.summary, nil
}

// WriteTwice does the same for any layers; it reads each twice: first the headers,
// from which follows which entry wins at each path, then the contents of the
// winners.
func WriteTwice(ctx context.Context, out Output, layers []Layer, limits Limits) (Summary, error) {
	t := newTree(limits)
	r := newReader(limits)
	for i, l := range layers {
		err := r.Each(ctx, l, func(k int, h *tar.Header, _ io.Reader) error {
			return t.apply(entryID{int32(i), int32(k)}, h)
		})
		if err != nil {
			return Summary{}, err
		}
	}
	e := &emitter{output: output{to: out}, tree: t, links: t.survivors()}
	r = newReader(limits)
	for i, l := range layers {
		err := r.Each(ctx, l, func(k int, h *tar.Header, content io.Reader) error {
			return e.entry(entryID{int32(i), int32(k)}, h, content)
		})
		if err != nil {
			return Summary{}, err
		}
	}
	if err := e.rest("", t.root); err != nil {
		return Summary{}, err
	}
	return e.summary, nil
}

// newReader counts the entries and bytes of all layers together.
func newReader(l Limits) *layertar.Reader {
	return layertar.NewReader(layertar.Limits{Bytes: l.Bytes, Entries: l.Entries, Image: true})
}

// names counts what is in memory.
type names struct {
	limits Limits
	count  int
	bytes  int64
}

// keep returns a name by itself: the text that it is cut from may be much longer.
func (n *names) keep(name string) (string, error) {
	n.count++
	n.bytes += int64(len(name))
	switch {
	case n.limits.Names > 0 && n.count > n.limits.Names:
		return "", refuse("is of an image with more than %d names, with all directories on the way to them", n.limits.Names)
	case n.limits.NameBytes > 0 && n.bytes > n.limits.NameBytes:
		return "", refuse("is of an image whose names are longer than %d MiB together", n.limits.NameBytes>>20)
	}
	return strings.Clone(name), nil
}

func refuse(format string, args ...any) error { return layertar.Refuse(format, args...) }
