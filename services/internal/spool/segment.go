package spool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MaxRecord is the maximum length of a record in bytes.
const MaxRecord = 4096

// suffix is the extension of segment files. Their names are the ordinal of the first record
// with 20 digits.
const suffix = ".seg"

// A stored record is its length (2 bytes), a CRC-32 of length and content (4 bytes), and the
// content. Numbers are big endian. Data after the last intact record is ignored: it is unused
// space, or a record that was not fully written when the process was killed.
const headLength = 6

// frame appends a record in its stored form to buf.
func frame(buf, record []byte) []byte {
	length := binary.BigEndian.AppendUint16(nil, uint16(len(record)))
	buf = append(buf, length...)
	buf = binary.BigEndian.AppendUint32(buf, checksum(length, record))
	return append(buf, record...)
}

func checksum(length, record []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(length), crc32.IEEETable, record)
}

// errTorn is returned when a record is incomplete or corrupt.
var errTorn = errors.New("the record is incomplete")

// readRecord returns the next record. It returns io.EOF after the last record, and errTorn
// if the data is not an intact record.
func readRecord(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, headLength)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, torn(err)
	}
	n := binary.BigEndian.Uint16(head)
	if n > MaxRecord {
		return nil, errTorn
	}
	record := make([]byte, n)
	if _, err := io.ReadFull(r, record); err != nil {
		return nil, torn(errors.Join(err, errTorn))
	}
	if binary.BigEndian.Uint32(head[2:]) != checksum(head[:2], record) {
		return nil, errTorn
	}
	return record, nil
}

func torn(err error) error {
	switch {
	case errors.Is(err, errTorn), errors.Is(err, io.ErrUnexpectedEOF):
		return errTorn
	}
	return err
}

// A segment is one file of records.
type segment struct {
	first int64 // ordinal of the first record
	count int64
	size  int64 // bytes of intact records
	file  *os.File
	// mem is the mapping of the file while it is written to, or nil if it is not mapped.
	mem []byte
}

// next returns the ordinal after the last record.
func (s *segment) next() int64 { return s.first + s.count }

func newSegment(dir string, first, capacity int64) (*segment, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%020d%s", first, suffix)), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	s := &segment{first: first, file: f}
	if err := s.allocate(capacity); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// openSegment opens a file that an earlier process left. It returns nil if the file is not a
// segment.
func openSegment(path string) (*segment, error) {
	first, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), suffix), 10, 64)
	if err != nil || first < 1 {
		return nil, nil //nolint:nilerr // not a segment
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &segment{first: first, file: f}
	for r := bufio.NewReader(f); ; s.count++ {
		record, err := readRecord(r)
		if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			if err = s.trim(); err == nil {
				return s, nil
			}
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		s.size += headLength + int64(len(record))
	}
}

// write appends framed records after the last intact record. This overwrites the remains of a
// failed write.
func (s *segment) write(framed []byte, count int) error {
	put := s.copyIn
	if s.mem == nil {
		put = func(framed []byte) error { _, err := s.file.WriteAt(framed, s.size); return err }
	}
	if err := put(framed); err != nil {
		return err
	}
	s.size += int64(len(framed))
	s.count += int64(count)
	return nil
}

// capacity returns the size of the mapped file, or usual if it is not mapped.
func (s *segment) capacity(usual int64) int64 {
	if s.mem == nil {
		return usual
	}
	return int64(len(s.mem))
}

// trim ends the writing and returns unused space to the disk.
func (s *segment) trim() error { return errors.Join(s.unmap(), s.file.Truncate(s.size)) }

// close closes the file without deleting it.
func (s *segment) close() error { return errors.Join(s.unmap(), s.file.Close()) }

// remove deletes the file. If that fails, its records are sent again after the next start,
// and the receiver recognizes them by their ordinals.
func (s *segment) remove() {
	_ = os.Remove(s.file.Name())
	_ = s.close()
}
