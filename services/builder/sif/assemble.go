package sif

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/layertar"
)

// A Layer is a layer of an image.
type Layer struct {
	flatten.Layer
	// Keep opens the part of the layer (package squashfs), which write creates unless it is stored.
	// If it is nil, the part is only used for this image.
	Keep func(ctx context.Context, write func(out io.Writer) error) (OpenPart, error)
}

// An OpenPart is a part with its file.
type OpenPart struct {
	*squashfs.Part
	io.Closer
	// shared states that other images have the same part, as opposed to one of this image only.
	shared bool
}

// Layers whose parts are opened, and made, concurrently.
const (
	concurrentOpens = 8
	concurrentParts = 2
)

// parts are the open parts of an image, in the order of its layers.
type parts []OpenPart

// Close closes the files.
func (p parts) Close() error {
	var err error
	for _, f := range p {
		if f.Closer != nil {
			err = errors.Join(err, f.Closer.Close())
		}
	}
	return err
}

// squash returns the parts as package squashfs uses them.
func (p parts) squash() []*squashfs.Part {
	out := make([]*squashfs.Part, len(p))
	for i, f := range p {
		out[i] = f.Part
	}
	return out
}

// openParts opens the parts of all layers, and makes the missing ones.
func openParts(ctx context.Context, dir string, img Image, layers []Layer, memory *arena.Budget) (parts, error) {
	p, turns := make(parts, len(layers)), make(chan struct{}, concurrentParts)
	g, making := errgroup.WithContext(ctx)
	g.SetLimit(concurrentOpens)
	for i, l := range layers {
		g.Go(func() (err error) {
			write := func(out io.Writer) error {
				select {
				case turns <- struct{}{}:
				case <-making.Done():
					return context.Cause(making)
				}
				defer func() { <-turns }()
				return WritePart(making, out, img.Compressor, l.Layer, img.layerLimits(), memory)
			}
			if l.Keep != nil {
				p[i], err = l.Keep(making, write)
				p[i].shared = true
			} else {
				p[i], err = temporaryPart(dir, write)
			}
			return err
		})
	}
	err := g.Wait()
	if err == nil {
		err = img.admit(layers, p)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// admit returns an error if the files of all layers together are too large.
func (img Image) admit(layers []Layer, parts parts) error {
	left := img.Limits.Bytes
	for i, p := range parts {
		if left -= p.Bytes; left < 0 && img.Limits.Bytes > 0 {
			return &flatten.Refusal{Layer: layers[i].Name, Reason: img.layerLimits().TooLarge()}
		}
	}
	return nil
}

func (img Image) layerLimits() layertar.Limits {
	return layertar.Limits{Bytes: img.Limits.Bytes, Entries: img.Limits.Entries, Image: true}
}

// WritePart reads a layer and writes its part. The argument memory bounds the memory for names; nil means
// no limit.
func WritePart(ctx context.Context, out io.Writer, c *squashfs.Compressor, l flatten.Layer, max layertar.Limits, memory *arena.Budget) error {
	_, err := squashfs.WritePart(ctx, out, c, memory, func(w *squashfs.PartWriter) error {
		return layertar.NewReader(max).Each(ctx, l, func(_ int, h *tar.Header, content io.Reader) error {
			h, err := flatten.Entry(h)
			if err != nil {
				return err
			}
			return w.Add(h, content)
		})
	})
	return err
}

// temporaryPart writes a part to a file without a name.
func temporaryPart(dir string, write func(out io.Writer) error) (OpenPart, error) {
	f, err := temporary(dir)
	if err != nil {
		return OpenPart{}, err
	}
	size, out := int64(0), OpenPart{Closer: f}
	if err = write(f); err == nil {
		size, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil {
		out.Part, err = squashfs.OpenPart(f, size)
	}
	if err != nil {
		return OpenPart{}, errors.Join(err, f.Close())
	}
	return out, nil
}

// temporary creates a file without a name, which is deleted when it is closed.
func temporary(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// assembler is the output of flatten for layers whose files are numbers of parts.
type assembler struct {
	to *squashfs.Writer
	// part is the index of the layer that is being read: flatten reads one after another.
	part   int
	parts  []*squashfs.Part
	number [4]byte
}

// listings returns the layers for flatten.
func (a *assembler) listings(layers []Layer) []flatten.Layer {
	out := make([]flatten.Layer, len(layers))
	for i, p := range a.parts {
		listing, length := p.Listing()
		out[i] = flatten.Layer{Name: layers[i].Name, Size: length, Open: func(context.Context) (io.ReadCloser, error) {
			a.part = i
			_, err := listing.Seek(0, io.SeekStart)
			return io.NopCloser(listing), err
		}}
	}
	return out
}

// Add implements flatten.Output.
func (a *assembler) Add(h *tar.Header, content io.Reader) error {
	if h.Typeflag != tar.TypeReg {
		return a.to.Add(h, 0, 0)
	}
	if _, err := io.ReadFull(content, a.number[:]); err != nil {
		return err
	}
	return a.to.Add(h, a.part, binary.LittleEndian.Uint32(a.number[:]))
}
