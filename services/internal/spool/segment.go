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

// MaxRecord is the longest record in bytes.
const MaxRecord = 4096

// suffix is how the files of segments are named: <ordinal of the first record,
// 20 digits>.seg
const suffix = ".seg"

// A record in a file: its length (2 bytes), a checksum over length and content
// (4 bytes, CRC-32), its content. Numbers are big endian. What follows the last
// whole record is of no account: it is room that was not used, or a process was
// killed while it wrote.
const headLength = 6

// frame adds a record to buf in the form in which it is stored.
func frame(buf, record []byte) []byte {
	length := binary.BigEndian.AppendUint16(nil, uint16(len(record)))
	buf = append(buf, length...)
	buf = binary.BigEndian.AppendUint32(buf, checksum(length, record))
	return append(buf, record...)
}

func checksum(length, record []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(length), crc32.IEEETable, record)
}

// errTorn says that there is no further whole record.
var errTorn = errors.New("the record is not whole")

// readRecord reads the next record. io.EOF after the last, errTorn when what
// comes is no record.
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

// segment is one file of records.
type segment struct {
	first int64 // ordinal of the first record
	count int64
	size  int64 // bytes of whole records
	file  *os.File
	// mem is the file, mapped, while it is written to; nil where it cannot be.
	mem []byte
}

// next is the ordinal after the last record.
func (s *segment) next() int64 { return s.first + s.count }

func newSegment(dir string, first, room int64) (*segment, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%020d%s", first, suffix)), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	s := &segment{first: first, file: f}
	if err := s.mapRoom(room); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// openSegment reads a file that a former process left; nil when it is not a
// segment's.
func openSegment(path string) (*segment, error) {
	first, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), suffix), 10, 64)
	if err != nil || first < 1 {
		return nil, nil //nolint:nilerr // somebody else's file
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

// write adds framed records. It writes where the last whole record ends, so that
// what a write that went wrong has left is written over.
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

// room is how many bytes fit, where as many are usual.
func (s *segment) room(usual int64) int64 {
	if s.mem == nil {
		return usual
	}
	return int64(len(s.mem))
}

// trim ends the writing: the room that was not used goes back to the disk.
func (s *segment) trim() error { return errors.Join(s.unmap(), s.file.Truncate(s.size)) }

// close keeps the file.
func (s *segment) close() error { return errors.Join(s.unmap(), s.file.Close()) }

// remove deletes the file. One that stays is sent again after the next start, and
// known then by its ordinals.
func (s *segment) remove() {
	_ = os.Remove(s.file.Name())
	_ = s.close()
}
