package squashfs_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/squashfs"
)

// options are the options of an image of one part.
type options struct {
	squashfs.Compression
	Workers int
	Memory  *arena.Budget
}

// entries receives the entries of an image.
type entries func(h *tar.Header, content io.Reader) error

// numbered is an entry, and the number of its content in the part.
type numbered struct {
	tar.Header
	number uint32
}

// part writes the contents of entries as a part, and returns the entries. The names in the part
// are not those of the entries, which may be invalid.
func part(ctx context.Context, to io.Writer, c *squashfs.Compressor, memory *arena.Budget, fill func(entries) error) (size int64, all []numbered, err error) {
	number := uint32(0)
	size, err = squashfs.WritePart(ctx, to, c, memory, func(w *squashfs.PartWriter) error {
		return fill(func(h *tar.Header, content io.Reader) error {
			all = append(all, numbered{*h, number})
			if h.Typeflag != tar.TypeReg {
				return nil
			}
			number++
			return w.Add(&tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: h.Size}, content)
		})
	})
	return size, all, err
}

// write writes an image of one part to a file, and returns its size.
func write(ctx context.Context, t testing.TB, to *os.File, o options, fill func(entries) error) (int64, error) {
	t.Helper()
	c, err := squashfs.NewCompressor(o.Compression, o.Workers)
	if err != nil {
		return 0, err
	}
	in, scratch := temporary(t), temporary(t)
	defer in.Close()
	defer scratch.Close()
	size, all, err := part(ctx, in, c, o.Memory, fill)
	if err != nil {
		return 0, err
	}
	p, err := squashfs.OpenPart(in, size)
	if err != nil {
		return 0, err
	}
	img, err := squashfs.Write(ctx, scratch, c, o.Memory, []*squashfs.Part{p}, func(w *squashfs.Writer) error {
		for i := range all {
			if err := w.Add(&all[i].Header, 0, all[i].number); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, io.NewSectionReader(img, 0, img.Size()))
	return n, errors.Join(err, to.Truncate(n))
}

func temporary(t testing.TB) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}
