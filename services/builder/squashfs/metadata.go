package squashfs

import (
	"encoding/binary"
	"io"
)

// metadataSize is the size of the blocks of a table in bytes.
const metadataSize = 8 << 10

// unpacked marks the length of an uncompressed metadata block.
const unpacked = 1 << 15

// A ref is a reference into a table: the position of the stored block relative to the
// table's beginning, shifted by 16, and the offset in the unpacked block.
type ref uint64

func newRef(block uint64, offset int) ref { return ref(block<<16 | uint64(offset)) }

// block returns the position of the block.
func (r ref) block() uint32 { return uint32(r >> 16) }

// offset returns the offset in the block.
func (r ref) offset() uint16 { return uint16(r) }

// metadata is a table that is written in compressed blocks.
type metadata struct {
	pack packer
	out  io.Writer
	// size is the stored length in bytes, and starts the positions of its blocks.
	size   uint64
	starts []uint64
	raw    []byte
	packed []byte
	err    error
}

func newMetadata(pack packer, out io.Writer) *metadata {
	return &metadata{pack: pack, out: out, raw: make([]byte, 0, metadataSize)}
}

// at returns the reference of the next byte.
func (m *metadata) at() ref { return newRef(m.size, len(m.raw)) }

// add never fails; end returns the error.
func (m *metadata) add(p []byte) {
	for len(p) > 0 {
		n := min(metadataSize-len(m.raw), len(p))
		m.raw = append(m.raw, p[:n]...)
		if p = p[n:]; len(m.raw) == metadataSize {
			m.flush()
		}
	}
}

// Write calls add.
func (m *metadata) Write(p []byte) (int, error) {
	m.add(p)
	return len(p), nil
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

// end stores the remaining bytes.
func (m *metadata) end() error {
	m.flush()
	return m.err
}
