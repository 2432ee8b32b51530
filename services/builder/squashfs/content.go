package squashfs

import (
	"bytes"
	"fmt"
	"io"
)

// file is the content of a regular file. It holds no pointers.
type file struct {
	// start is the position of its first block, size its length, and holes the number of
	// its bytes that are zeros and not stored.
	start, size, holes uint64
	// first is the index of its first block in the list of stored lengths, where 0 is a
	// hole; count is the number of its blocks.
	first, count uint32
	end          place
}

// place is the position of a file's last, partial block: the fragment and the offset in it.
// The fragment is none if there is no partial block.
type place struct{ fragment, offset uint32 }

// zeros is the content of a hole.
var zeros [blockSize]byte //nolint:gochecknoglobals // never changed

// content reads a file. When it returns, the file's blocks are queued, but maybe not stored
// yet.
func (w *Writer) content(f *file, size int64, r io.Reader) error {
	f.size, f.end.fragment = uint64(size), none
	for left := size; left >= blockSize; left -= blockSize {
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

// tail reads the end of a file into a block that several files share.
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
	if same, ok := w.tails.find(s); ok {
		f.end = place{uint32(same >> 32), uint32(same)}
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
	return w.full(w.tails.add(s, uint64(f.end.fragment)<<32|uint64(f.end.offset)))
}

// hole queues a partial block of zeros, which needs no fragment.
func (w *Writer) hole(f *file, raw []byte) error {
	b, err := w.lane.next()
	if err != nil {
		return err
	}
	b.raw, b.file, b.hole = append(b.raw, raw...), f, true
	w.lane.put(b)
	return nil
}

// flushFragment queues the current block of file ends.
func (w *Writer) flushFragment() error {
	if w.fragment == nil {
		return nil
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
