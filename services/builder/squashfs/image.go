package squashfs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"slipway.dev/services/builder/pieces"
)

const (
	magic          = 0x73717368
	superblockSize = 96
	// padding is the alignment of an image's length in bytes, because a loop device has no
	// partial blocks.
	padding = 4096
	// absent is the position of a missing table.
	absent = math.MaxUint64
)

// Flags of a superblock.
const (
	flagTails         = 0x20 // ends of files share blocks
	flagSame          = 0x40 // equal content is stored once
	flagNoAttributes  = 0x200
	flagHasCompressor = 0x400 // the compressor's options follow the superblock
)

// image is the image that is written. Its tables are in a file of their own.
type image struct {
	file Scratch
	pack packer
	// end is the position of the next byte in the image, and begin that of the first table.
	end, begin uint64
}

// Write appends bytes.
func (m *image) Write(p []byte) (int, error) {
	if err := m.append(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (m *image) append(p []byte) error {
	n, err := m.file.WriteAt(p, int64(m.end-m.begin))
	m.end += uint64(n)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return nil
}

// finish writes the tables and returns the image: the superblock with their positions and the
// compressor's options, the blocks of the parts, and the tables.
func (w *Writer) finish(c *Compressor) (*pieces.File, error) {
	compressor, options := c.id()
	options = append(binary.LittleEndian.AppendUint16(nil, uint16(len(options))|unpacked), options...)
	blocks, err := w.arrange(superblockSize + uint64(len(options)))
	if err != nil {
		return nil, err
	}
	s, err := w.writeTables()
	if err != nil {
		return nil, err
	}
	var out pieces.File
	head := append(s.encode(compressor), options...)
	out.Append(bytes.NewReader(head), 0, int64(len(head)))
	for _, b := range blocks {
		out.Append(b.from, int64(b.old), int64(b.length))
	}
	out.Append(w.file, 0, int64(w.end-w.begin))
	if rest := out.Size() % padding; rest > 0 {
		out.Append(bytes.NewReader(zeros[:padding]), 0, padding-rest)
	}
	return &out, nil
}

// writeTables writes all tables.
func (w *Writer) writeTables() (superblock, error) {
	t := newTables(w)
	s := superblock{inodeTable: w.end, fragments: uint32(w.fragments.Len()), owners: uint16(len(w.owners)), flags: flagTails | flagSame | flagHasCompressor}
	var err error
	if s.root, err = t.writeTree(); err != nil {
		return s, w.full(err)
	}
	s.inodes, s.listings = t.count, w.end
	if _, err := t.stored.WriteTo(&w.image); err != nil {
		return s, err
	}
	if s.ends, err = w.writeFragments(); err != nil {
		return s, err
	}
	if s.ids, err = w.writeOwners(); err != nil {
		return s, err
	}
	if s.xattrs, err = w.writeAttributes(); err != nil {
		return s, err
	}
	if s.xattrs == absent {
		s.flags |= flagNoAttributes
	}
	s.size = w.end
	return s, nil
}

// superblock holds the positions of the tables and their numbers of rows.
type superblock struct {
	inodes, fragments uint32
	owners, flags     uint16
	root              ref
	size              uint64

	inodeTable, listings, ends, ids, xattrs uint64
}

func (s superblock) encode(compressor uint16) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(nil, magic)
	out = le.AppendUint32(out, s.inodes)
	out = le.AppendUint32(out, 0) // creation time: always 0, so that the bytes do not depend on it
	out = le.AppendUint32(out, blockSize)
	out = le.AppendUint32(out, s.fragments)
	for _, v := range []uint16{compressor, blockLog, s.flags, s.owners, 4, 0} {
		out = le.AppendUint16(out, v)
	}
	for _, v := range []uint64{uint64(s.root), s.size, s.ids, s.xattrs, s.inodeTable, s.listings, s.ends, absent} {
		out = le.AppendUint64(out, v)
	}
	return out
}

// writeFragments writes the table of fragments.
func (w *Writer) writeFragments() (uint64, error) {
	if w.fragments.Len() == 0 {
		return absent, nil
	}
	return w.indexed(w.fragments.Len(), func(to []byte, i int) []byte {
		f := w.fragments.At(uint32(i))
		to = binary.LittleEndian.AppendUint64(to, f.start)
		return binary.LittleEndian.AppendUint64(to, uint64(f.word))
	})
}

// writeOwners writes the table of user and group ids.
func (w *Writer) writeOwners() (uint64, error) {
	return w.indexed(len(w.owners), func(to []byte, i int) []byte {
		return binary.LittleEndian.AppendUint32(to, w.owners[i])
	})
}
