package history

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// All returns the blocks of the last unbroken chain.
func (h *File) All() []Block { return h.blocks }

// Seal sets the checksums of the first block, so that its content is checked next.
func Seal(raw []byte) []byte {
	raw = bytes.Clone(raw)
	if len(raw) < headerSize {
		return raw
	}
	copy(raw, magic)
	head := raw[len(magic):headerSize]
	length := binary.LittleEndian.Uint64(head)
	if most := uint64(len(raw) - headerSize); length > most {
		length = most
		binary.LittleEndian.PutUint64(head, length)
	}
	binary.LittleEndian.PutUint32(head[20:], crc32.Checksum(raw[headerSize:headerSize+int(length)], castagnoli))
	binary.LittleEndian.PutUint32(raw[headerSize-4:], crc32.Checksum(raw[:headerSize-4], castagnoli))
	return raw
}
