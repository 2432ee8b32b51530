package squashfs

import (
	"encoding/binary"
	"io"
)

// metadataSize is how much of a table is compressed at a time, in bytes.
const metadataSize = 8 << 10

// unpacked marks in a metadata block's length that it is not compressed.
const unpacked = 1 << 15

// ref is a place in a table: where the block begins, in bytes from the table's
// beginning as stored, shifted by 16, and the offset in the block unpacked.
type ref uint64

func newRef(block uint64, offset int) ref { return ref(block<<16 | uint64(offset)) }

// block is where the block begins.
func (r ref) block() uint32 { return uint32(r >> 16) }

// offset is that in the block.
func (r ref) offset() uint16 { return uint16(r) }

// metadata is a table that is written in compressed blocks.
type metadata struct {
	pack packer
	out  io.Writer
	// size is the length of what has been stored, in bytes; starts are where its blocks
	// begin.
	size   uint64
	starts []uint64
	raw    []byte
	packed []byte
	err    error
}

func newMetadata(pack packer, out io.Writer) *metadata {
	return &metadata{pack: pack, out: out, raw: make([]byte, 0, metadataSize)}
}

// at is where the next byte will be.
func (m *metadata) at() ref { return newRef(m.size, len(m.raw)) }

// add never fails; end does.
func (m *metadata) add(p []byte) {
	for len(p) > 0 {
		n := min(metadataSize-len(m.raw), len(p))
		m.raw = append(m.raw, p[:n]...)
		if p = p[n:]; len(m.raw) == metadataSize {
			m.flush()
		}
	}
}

func (m *metadata) flush() {
	if len(m.raw) == 0 || m.err != nil {
		return
	}
	m.packed = m.pack(append(m.packed[:0], 0, 0), m.raw)
	word := uint16(len(m.packed) - 2)
	if len(m.packed)-2 >= len(m.raw) {
		m.packed = append(m.packed[:2], m.raw...)
		word = uint16(len(m.raw)) | unpacked
	}
	binary.LittleEndian.PutUint16(m.packed, word)
	m.starts = append(m.starts, m.size)
	m.size += uint64(len(m.packed))
	_, m.err = m.out.Write(m.packed)
	m.raw = m.raw[:0]
}

// end stores what is left.
func (m *metadata) end() error {
	m.flush()
	return m.err
}
