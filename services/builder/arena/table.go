package arena

import (
	"io"
	"unsafe"
)

// chunkRows is the number of records that are allocated together. A chunk of 4096 records
// of any size fills whole pages.
const chunkRows = 4096

// Table is a list of records, numbered from 0. T must hold no Go pointers.
type Table[T any] struct {
	arena  *Arena
	chunks []*[chunkRows]T
	n      uint32
}

// NewTable returns an empty table.
func NewTable[T any](a *Arena) *Table[T] { return &Table[T]{arena: a} }

// Add appends a zero record. It returns its number and its address, which does not change.
func (t *Table[T]) Add() (uint32, *T, error) {
	var zero T
	if err := t.arena.Charge(int(unsafe.Sizeof(zero))); err != nil {
		return 0, nil, err
	}
	if int(t.n) == len(t.chunks)*chunkRows {
		m, err := t.arena.allocate(chunkRows * int(unsafe.Sizeof(zero)))
		if err != nil {
			return 0, nil, err
		}
		t.chunks = append(t.chunks, (*[chunkRows]T)(unsafe.Pointer(&m[0]))) //nolint:gosec // pages, for records without pointers
	}
	t.n++
	return t.n - 1, t.At(t.n - 1), nil
}

// At returns a record.
func (t *Table[T]) At(i uint32) *T { return &t.chunks[i/chunkRows][i%chunkRows] }

// Len returns the number of records.
func (t *Table[T]) Len() int { return int(t.n) }

// chunkBytes is the size of the chunks of Strings and Bytes.
const chunkBytes = 64 << 10

// Bytes is an append-only sequence of bytes.
type Bytes struct {
	arena  *Arena
	chunks [][]byte
	n      int64
}

// NewBytes returns an empty sequence.
func NewBytes(a *Arena) *Bytes { return &Bytes{arena: a} }

// Len returns the length.
func (b *Bytes) Len() int64 { return b.n }

// Write appends bytes.
func (b *Bytes) Write(p []byte) (int, error) {
	if err := b.arena.Charge(len(p)); err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) {
		at := int(b.n % chunkBytes)
		if at == 0 {
			m, err := b.arena.allocate(chunkBytes)
			if err != nil {
				return done, err
			}
			b.chunks = append(b.chunks, m)
		}
		n := copy(b.chunks[len(b.chunks)-1][at:], p[done:])
		done += n
		b.n += int64(n)
	}
	return done, nil
}

// WriteTo writes all bytes to w.
func (b *Bytes) WriteTo(w io.Writer) (int64, error) {
	var done int64
	for _, c := range b.chunks {
		n, err := w.Write(c[:min(chunkBytes, b.n-done)])
		done += int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Strings is a list of numbered strings, each less than 64 KiB long.
type Strings struct {
	arena  *Arena
	chunks [][]byte
	end    int // end of the last chunk's content
}

// NewStrings returns an empty list.
func NewStrings(a *Arena) *Strings { return &Strings{arena: a, end: chunkBytes} }

// lengthBytes is the size of a string's length prefix.
const lengthBytes = 2

// Add stores a string and returns its number.
func (s *Strings) Add(v string) (uint32, error) {
	n := len(v) + lengthBytes
	if n > chunkBytes {
		return 0, errFull
	}
	if err := s.arena.Charge(n); err != nil {
		return 0, err
	}
	if s.end+n > chunkBytes {
		m, err := s.arena.allocate(chunkBytes)
		if err != nil {
			return 0, err
		}
		s.chunks, s.end = append(s.chunks, m), 0
	}
	last := len(s.chunks) - 1
	if last > maxChunks {
		return 0, errFull
	}
	c, at := s.chunks[last], s.end
	c[at], c[at+1] = byte(len(v)), byte(len(v)>>8)
	copy(c[at+lengthBytes:], v)
	s.end += n
	return uint32(last)<<16 | uint32(at), nil
}

// maxChunks is the largest index of a chunk that the number of a string can hold.
const maxChunks = 1<<16 - 1

// At returns a string that is valid until the arena is closed. Clone a string that outlives
// it.
func (s *Strings) At(id uint32) string {
	c, at := s.chunks[id>>16], id&0xffff
	n := int(c[at]) | int(c[at+1])<<8
	if n == 0 {
		return ""
	}
	return unsafe.String(&c[at+lengthBytes], n) //nolint:gosec // the bytes never change
}
