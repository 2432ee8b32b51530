package unsquash

import (
	"encoding/binary"
	"io"
)

const (
	// metadataSize is the size of an expanded metadata block, except for the last.
	metadataSize = 8192
	// plain is set in the length of a metadata block that is not compressed.
	plain = 1 << 15
	// cachedBlocks is the maximum number of expanded metadata blocks in memory.
	cachedBlocks = 256
)

// A metadataBlock is an expanded metadata block, and the position of the next one.
type metadataBlock struct {
	content []byte
	next    uint64
}

// A metadataCache holds the metadata blocks that were read last, by position.
type metadataCache struct {
	blocks map[uint64]metadataBlock
	order  []uint64
}

func (c *metadataCache) add(at uint64, b metadataBlock) {
	if c.blocks == nil {
		c.blocks = map[uint64]metadataBlock{}
	}
	if len(c.order) == cachedBlocks {
		delete(c.blocks, c.order[0])
		c.order = c.order[1:]
	}
	c.blocks[at], c.order = b, append(c.order, at)
}

// metadata returns the metadata block at a position.
func (img *image) metadata(at uint64) (metadataBlock, error) {
	if b, ok := img.blocks.blocks[at]; ok {
		return b, nil
	}
	head, err := img.bytes(at, 2)
	if err != nil {
		return metadataBlock{}, err
	}
	length := binary.LittleEndian.Uint16(head)
	size := int(length &^ plain)
	if size == 0 || size > metadataSize {
		return metadataBlock{}, refuse("a block of its tables has an invalid length")
	}
	packed, err := img.bytes(at+2, size)
	if err != nil {
		return metadataBlock{}, err
	}
	b := metadataBlock{next: at + 2 + uint64(size)}
	if length&plain != 0 {
		b.content = append(b.content, packed...)
	} else if b.content, err = img.expand(packed, metadataSize); err != nil {
		return metadataBlock{}, err
	}
	img.blocks.add(at, b)
	return b, nil
}

// A cursor reads metadata across blocks, starting at a position. It implements io.Reader.
type cursor struct {
	img    *image
	block  uint64
	offset int
}

// at returns a cursor in a table. The upper bits of a reference are the position of a block,
// relative to the table, and the lower 16 the offset in its content.
func (img *image) at(table, reference uint64) *cursor {
	return &cursor{img: img, block: table + reference>>16, offset: int(reference & 0xffff)}
}

// Read returns the next bytes. It never returns io.EOF: reading beyond the end of the image
// returns a *Refusal.
func (c *cursor) Read(p []byte) (int, error) {
	b, err := c.img.metadata(c.block)
	if err != nil {
		return 0, err
	}
	if c.offset > len(b.content) {
		return 0, refuse("a reference leads behind the end of a block")
	}
	n := copy(p, b.content[c.offset:])
	if c.offset += n; c.offset == len(b.content) {
		c.block, c.offset = b.next, 0
	}
	return n, nil
}

// fill reads len(p) bytes.
func (c *cursor) fill(p []byte) error {
	_, err := io.ReadFull(c, p)
	return err
}

// read reads values of fixed size.
func (c *cursor) read(to ...any) error {
	for _, v := range to {
		if err := binary.Read(c, binary.LittleEndian, v); err != nil {
			return err
		}
	}
	return nil
}

// indexed returns a cursor at an entry of an indexed table. At the position table, the
// image has a list of the positions of the table's metadata blocks.
func (img *image) indexed(table uint64, entry, size int) (*cursor, error) {
	byteAt := uint64(entry) * uint64(size)
	head, err := img.bytes(table+byteAt/metadataSize*8, 8)
	if err != nil {
		return nil, err
	}
	return &cursor{img: img, block: binary.LittleEndian.Uint64(head), offset: int(byteAt % metadataSize)}, nil
}
