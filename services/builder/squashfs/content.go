package squashfs

import (
	"bytes"
	"fmt"
	"io"
)

// file is the content of a regular file.
type file struct {
	// start is where its blocks begin, size its length and holes how much of it is
	// zeros that are not stored, in bytes.
	start, size, holes uint64
	// blocks are their lengths as stored; 0 is a hole.
	blocks []uint32
	end    place
}

// place is where the end of a file is, which fills no block of its own: in which
// fragment, and from which byte on. The fragment is none where there is no end.
type place struct{ fragment, offset uint32 }

// zeros is a hole.
var zeros [blockSize]byte //nolint:gochecknoglobals // never changed

// content reads a file. Its blocks have been handed on, not stored, when it returns.
func (w *Writer) content(f *file, size int64, r io.Reader) error {
	f.size, f.end.fragment = uint64(size), none
	for left := size; left >= blockSize; left -= blockSize {
		if err := w.charge(4); err != nil {
			return err
		}
		b, err := w.lane.next()
		if err != nil {
			return err
		}
		b.raw = b.raw[:blockSize]
		if _, err := io.ReadFull(r, b.raw); err != nil {
			return short(err)
		}
		b.file, b.hole, b.last = f, bytes.Equal(b.raw, zeros[:]), left < 2*blockSize
		w.lane.put(b)
	}
	if n := size % blockSize; n > 0 {
		return w.tail(f, r, int(n))
	}
	return nil
}

// tail reads the end of a file into a block that it shares with others'.
func (w *Writer) tail(f *file, r io.Reader, n int) error {
	if w.scratch == nil {
		w.scratch = make([]byte, blockSize)
	}
	raw := w.scratch[:n]
	if _, err := io.ReadFull(r, raw); err != nil {
		return short(err)
	}
	if bytes.Equal(raw, zeros[:n]) {
		return w.hole(f, raw)
	}
	s := w.lane.marker.of(raw)
	if same, ok := w.tails[s]; ok {
		f.end = same
		return nil
	}
	if w.fragment != nil && len(w.fragment.raw)+n > blockSize {
		if err := w.flushFragment(); err != nil {
			return err
		}
	}
	if w.fragment == nil {
		var err error
		if w.fragment, err = w.lane.next(); err != nil {
			return err
		}
	}
	f.end = place{w.fragments, uint32(len(w.fragment.raw))}
	w.fragment.raw = append(w.fragment.raw, raw...)
	w.tails[s] = f.end
	return nil
}

// hole hands on an end of zeros, which needs no place in a fragment.
func (w *Writer) hole(f *file, raw []byte) error {
	b, err := w.lane.next()
	if err != nil {
		return err
	}
	b.raw, b.file, b.hole = append(b.raw, raw...), f, true
	w.lane.put(b)
	return w.charge(4)
}

// flushFragment hands on the block of ends that is being filled.
func (w *Writer) flushFragment() error {
	if w.fragment == nil {
		return nil
	}
	if err := w.charge(16); err != nil {
		return err
	}
	w.lane.put(w.fragment)
	w.fragment = nil
	w.fragments++
	return nil
}

func short(err error) error {
	if err == io.EOF { //nolint:errorlint // a source's own kind of end is its own
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading a file's content: %w", err)
}
