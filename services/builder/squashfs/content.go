package squashfs

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
)

// file is the content of a regular file in a part. It holds no pointers.
type file struct {
	// size is its length in bytes, start the position of its first block, length the number of bytes
	// of all its blocks, and holes the number of its bytes that are zeros and not stored.
	size, start, length, holes uint64
	// first is the index of its first block in the list of stored lengths, where 0 is a
	// hole; count is the number of its blocks.
	first, count uint32
	end          place
	// sum is a hash of the content. It depends on the version of the compressor.
	sum [32]byte
}

// place is the position of a file's last, partial block: the fragment and the offset in it.
// The fragment is none if there is no partial block.
type place struct{ fragment, offset uint32 }

// zeros is the content of a hole.
var zeros [blockSize]byte //nolint:gochecknoglobals // never changed

// read reads a file. When it returns, the file's blocks are queued, but maybe not stored yet. Its
// last block is queued after the end has been read, because the hash of the end is a part of the
// file's.
func (w *PartWriter) read(f *file, size int64, r io.Reader) error {
	f.size, f.end.fragment = uint64(size), none
	var last *block
	put := func(b *block) {
		if last != nil {
			w.lane.put(last)
		}
		last = b
	}
	for left := size; left >= blockSize; left -= blockSize {
		b, err := w.lane.next()
		if err != nil {
			return err
		}
		b.raw = b.raw[:blockSize]
		if _, err := io.ReadFull(r, b.raw); err != nil {
			return short(err)
		}
		b.file, b.hole = f, bytes.Equal(b.raw, zeros[:])
		put(b)
	}
	tail, hole, err := w.tail(f, r, int(size%blockSize))
	if err != nil {
		return err
	}
	if hole != nil {
		put(hole)
	}
	if last != nil {
		last.last = true
		put(nil)
	}
	return w.share(f, tail)
}

// tail reads the last n bytes of a file, and sets the hash of f to theirs. If all are zeros, it returns
// a block of its own instead, which is not stored.
func (w *PartWriter) tail(f *file, r io.Reader, n int) (tail []byte, hole *block, err error) {
	if n == 0 {
		return nil, nil, nil
	}
	if w.scratch == nil {
		w.scratch = make([]byte, blockSize)
	}
	tail = w.scratch[:n]
	if _, err := io.ReadFull(r, tail); err != nil {
		return nil, nil, short(err)
	}
	if !bytes.Equal(tail, zeros[:n]) {
		f.sum = sha256.Sum256(tail)
		return tail, nil, nil
	}
	if hole, err = w.lane.next(); err == nil {
		hole.raw, hole.file, hole.hole = append(hole.raw, tail...), f, true
	}
	return nil, hole, err
}

// share puts the end of a file into a block that several files share.
func (w *PartWriter) share(f *file, tail []byte) (err error) {
	if len(tail) == 0 {
		return nil
	}
	if w.fragment != nil && len(w.fragment.raw)+len(tail) > blockSize {
		w.flushFragment()
	}
	if w.fragment == nil {
		if w.fragment, err = w.lane.next(); err != nil {
			return err
		}
	}
	f.end = place{w.fragments, uint32(len(w.fragment.raw))}
	w.fragment.raw = append(w.fragment.raw, tail...)
	return nil
}

// flushFragment queues the current block of file ends.
func (w *PartWriter) flushFragment() {
	if w.fragment != nil {
		w.lane.put(w.fragment)
		w.fragment = nil
		w.fragments++
	}
}

func short(err error) error {
	if err == io.EOF { //nolint:errorlint // a source's own kind of end is its own
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading a file's content: %w", err)
}
