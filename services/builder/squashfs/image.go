package squashfs

import (
	"encoding/binary"
	"fmt"
	"math"
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

// image is the file that is written.
type image struct {
	file File
	pack packer
	// end is the position of the next byte.
	end        uint64
	compressor uint16
}

// Write appends bytes.
func (m *image) Write(p []byte) (int, error) {
	if err := m.append(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (m *image) append(p []byte) error {
	n, err := m.file.WriteAt(p, int64(m.end))
	m.end += uint64(n)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return nil
}

// begin reserves space for the superblock and writes the compressor's options.
func (m *image) begin(c Compression) error {
	var options []byte
	m.compressor, options = c.id()
	m.end = superblockSize
	return m.append(append(binary.LittleEndian.AppendUint16(nil, uint16(len(options))|unpacked), options...))
}

// finish writes the tables, and the superblock with their positions. It returns the image's
// length in bytes.
func (w *Writer) finish() (int64, error) {
	t := newTables(w)
	s := superblock{inodeTable: w.end, fragments: uint32(w.lane.table.Len()), owners: uint16(len(w.owners)), flags: flagTails | flagSame | flagHasCompressor}
	var err error
	if s.root, err = t.writeTree(); err != nil {
		return 0, w.full(err)
	}
	s.inodes, s.listings = t.count, w.end
	if _, err := t.stored.WriteTo(&w.image); err != nil {
		return 0, err
	}
	if s.ends, err = w.writeFragments(); err != nil {
		return 0, err
	}
	if s.ids, err = w.writeOwners(); err != nil {
		return 0, err
	}
	if s.xattrs, err = w.writeAttributes(); err != nil {
		return 0, err
	}
	if s.xattrs == absent {
		s.flags |= flagNoAttributes
	}
	s.size = w.end
	if _, err := w.file.WriteAt(s.encode(w.compressor), 0); err != nil {
		return 0, fmt.Errorf("writing the image: %w", err)
	}
	length := int64(w.end+padding-1) &^ (padding - 1)
	for _, size := range []int64{int64(w.end), length} { // the padding must be zeros, whatever the file contained
		if err := w.file.Truncate(size); err != nil {
			return 0, fmt.Errorf("writing the image: %w", err)
		}
	}
	return length, nil
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
	if w.lane.table.Len() == 0 {
		return absent, nil
	}
	return w.indexed(w.lane.table.Len(), func(to []byte, i int) []byte {
		f := w.lane.table.At(uint32(i))
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
