package chunked

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"

	"github.com/opencontainers/go-digest"
)

// Annotations of zstd:chunked layers: the digest of the compressed TOC, its position, length, length
// after decompression and type, and the position and both lengths of the headers of the tar.
const (
	ZstdTOC      = "io.github.containers.zstd-chunked.manifest-checksum"
	ZstdPosition = "io.github.containers.zstd-chunked.manifest-position"
	ZstdTarSplit = "io.github.containers.zstd-chunked.tarsplit-position"
)

const (
	// frameHeader is the length of the header of a frame that decoders skip.
	frameHeader = 8
	// tocType is the type of the TOC.
	tocType = 1
	footer  = "GNUlInUx"
)

// closeZstd appends the TOC, the headers of the tar and the footer in frames that decoders skip.
func (w *Writer) closeZstd() error {
	split, splitSize, err := w.split.close()
	if err != nil {
		return err
	}
	toc, err := w.toc(digest.FromBytes(split).String())
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w.frame.Reset(&packed)
	_, err = w.frame.Write(toc)
	if err := errors.Join(err, w.frame.Close()); err != nil {
		return err
	}
	at := w.out.n + frameHeader
	splitAt := at + int64(packed.Len()) + frameHeader
	end := make([]byte, 0, 64)
	for _, n := range []int64{at, int64(packed.Len()), int64(len(toc)), tocType, splitAt, int64(len(split)), splitSize} {
		end = binary.LittleEndian.AppendUint64(end, uint64(n))
	}
	for _, content := range [][]byte{packed.Bytes(), split, append(end, footer...)} {
		if err := w.skipped(content); err != nil {
			return err
		}
	}
	w.notes = map[string]string{
		ZstdTOC:      digest.FromBytes(packed.Bytes()).String(),
		ZstdPosition: fmt.Sprintf("%d:%d:%d:%d", at, packed.Len(), len(toc), tocType),
		ZstdTarSplit: fmt.Sprintf("%d:%d:%d", splitAt, len(split), splitSize),
	}
	return nil
}

// skipped writes a frame that decoders skip.
func (w *Writer) skipped(content []byte) error {
	if int64(len(content)) > 1<<32-1 {
		return errors.New("the table of contents is too long")
	}
	head := append([]byte{0x50, 0x2a, 0x4d, 0x18}, binary.LittleEndian.AppendUint32(nil, uint32(len(content)))...)
	if _, err := w.out.Write(head); err != nil {
		return err
	}
	_, err := w.out.Write(content)
	return err
}

// A split records all bytes of a tar except the contents of files, in the format of tar-split
// (https://github.com/vbatts/tar-split), with which engines restore the tar.
type split struct {
	packed   bytes.Buffer
	frame    frame
	lines    *json.Encoder
	raw      counter
	headers  []byte
	position int
	file     *splitEntry // the file whose content is being written
	sum      hash.Hash64
}

// splitEntry is an entry of a split: a file with the checksum of its content, or other bytes.
type splitEntry struct {
	Type     int    `json:"type"`
	Name     string `json:"name,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Payload  []byte `json:"payload"`
	Position int    `json:"position"`
}

const (
	splitFile    = 1
	splitSegment = 2
)

func newSplit(newFrame func() (frame, error)) (*split, error) {
	s := &split{sum: crc64.New(crc64.MakeTable(crc64.ISO))}
	var err error
	s.frame, err = newFrame()
	return s, err
}

func (s *split) reset() {
	s.packed = bytes.Buffer{} // the last one was returned
	s.frame.Reset(&s.packed)
	s.raw = counter{out: s.frame}
	s.lines = json.NewEncoder(&s.raw)
	s.headers, s.position, s.file = s.headers[:0], 0, nil
}

// segment adds bytes that are no content.
func (s *split) segment(p []byte) { s.headers = append(s.headers, p...) }

// content adds content of the file.
func (s *split) content(p []byte) { _, _ = s.sum.Write(p) }

// header adds an entry whose header has been added. The content of a file follows.
func (s *split) header(name string, size int64) error {
	if err := s.flush(); err != nil {
		return err
	}
	s.file = &splitEntry{Type: splitFile, Name: name, Size: size}
	s.sum.Reset()
	if size == 0 {
		return s.add(s.file)
	}
	return nil
}

// end ends the content of a file.
func (s *split) end() error {
	s.file.Payload = s.sum.Sum(nil)
	return s.add(s.file)
}

func (s *split) flush() error {
	if len(s.headers) == 0 {
		return nil
	}
	err := s.add(&splitEntry{Type: splitSegment, Payload: s.headers})
	s.headers = s.headers[:0]
	return err
}

func (s *split) add(e *splitEntry) error {
	e.Position = s.position
	s.position++
	return s.lines.Encode(e)
}

// close returns the compressed split, and its length before compression.
func (s *split) close() ([]byte, int64, error) {
	if err := errors.Join(s.flush(), s.frame.Close()); err != nil {
		return nil, 0, err
	}
	return s.packed.Bytes(), s.raw.n, nil
}
