package ztoc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// FromGzip reads a gzip layer to its end and returns its zTOC. An invalid layer is
// ErrInvalid; other errors are those of the reader.
func FromGzip(in io.Reader) (*Ztoc, error) {
	s := &scanner{toc: newTOC(), sum: crc32.NewIEEE()}
	s.spans.begin()
	s.inflater = newInflater(in, func(p []byte) {
		if s.checkpoints.count > 0 { // the first span begins at the first checkpoint
			_, _ = s.spans.Write(p)
		}
	}, func(p []byte) error {
		if s.unpacked += int64(len(p)); s.unpacked > limits.ZtocUnpacked {
			return invalidf("it is too large: it has more than %d GiB", limits.ZtocUnpacked>>30)
		}
		_, _ = s.sum.Write(p)
		_, err := s.toc.Write(p)
		return err
	})
	if err := s.members(); err != nil {
		if errors.Is(err, errTruncated) {
			err = invalidf("its gzip stream is truncated")
		}
		return nil, fmt.Errorf("reading the layer: %w", err)
	}
	if err := s.toc.finish(); err != nil {
		return nil, err
	}
	s.spans.end(nil)
	return &Ztoc{
		Compressed: s.position() / 8, Uncompressed: s.toc.size, files: s.toc.files,
		gzip: true, spanDigests: s.spans.digests, checkpoints: s.encode(),
	}, nil
}

// scanner reads the members of a gzip stream.
type scanner struct {
	*inflater
	checkpoints
	spans spans
	toc   *toc
	sum   hash.Hash32 // of the current member
	// unpacked is the number of decompressed bytes.
	unpacked int64
}

// members reads all members of the stream.
func (s *scanner) members() error {
	for {
		if err := s.header(); err != nil {
			return err
		}
		if err := s.blocks(); err != nil {
			return err
		}
		if err := s.trailer(); err != nil {
			return err
		}
		if err := s.fill(); err != nil {
			return err
		}
		if s.next == len(s.buffer) {
			s.report(s.next)
			return nil
		}
	}
}

// blocks reads the blocks of a member.
func (s *scanner) blocks() error {
	s.member = s.offset()
	s.sum.Reset()
	for last := false; !last; {
		if s.due(s.offset()) {
			if err := s.checkpoint(); err != nil {
				return err
			}
		}
		var err error
		if last, err = s.block(); err != nil {
			return err
		}
	}
	s.align()
	return s.flush()
}

// checkpoint adds a checkpoint before the next block.
func (s *scanner) checkpoint() error {
	position := s.position()
	first, in := position/8, ceil(position)
	s.reportTo(in)
	if s.checkpoints.count > 0 {
		s.spans.end(s.buffer[first-s.base : in-s.base])
	}
	return s.add(position, s.offset(), s.window())
}

// Flags of the header of a member.
const (
	flagHeaderSum = 1 << 1
	flagExtra     = 1 << 2
	flagName      = 1 << 3
	flagComment   = 1 << 4
	flagReserved  = 0xe0
)

// header reads the header of a member.
func (s *scanner) header() error {
	h := headerReader{inflater: s.inflater}
	fixed, err := h.bytes(10)
	if err != nil {
		return err
	}
	flags := fixed[3]
	if fixed[0] != 0x1f || fixed[1] != 0x8b || fixed[2] != 8 || flags&flagReserved != 0 {
		return invalidf("it is no gzip stream, or has other data after it")
	}
	if flags&flagExtra != 0 {
		n, err := h.bytes(2)
		if err == nil {
			_, err = h.bytes(int(binary.LittleEndian.Uint16(n)))
		}
		if err != nil {
			return err
		}
	}
	for _, f := range []byte{flagName, flagComment} {
		if flags&f == 0 {
			continue
		}
		if err := h.text(); err != nil {
			return err
		}
	}
	if flags&flagHeaderSum == 0 {
		return nil
	}
	want := uint16(h.sum & 0xffff)
	n, err := h.bytes(2)
	if err == nil && binary.LittleEndian.Uint16(n) != want {
		err = invalidf("its gzip stream has a damaged header")
	}
	return err
}

// headerReader reads bytes of a header and computes their checksum.
type headerReader struct {
	*inflater
	sum uint32
}

func (h *headerReader) bytes(n int) ([]byte, error) {
	out := make([]byte, n)
	for i := range out {
		v, err := h.take(8)
		if err != nil {
			return nil, err
		}
		out[i] = byte(v)
	}
	h.sum = crc32.Update(h.sum, crc32.IEEETable, out)
	return out, nil
}

// text skips a string that ends with a zero byte.
func (h *headerReader) text() error {
	for range limits.ZtocGzipText {
		b, err := h.bytes(1)
		if err != nil || b[0] == 0 {
			return err
		}
	}
	return invalidf("its gzip stream has a name or comment of more than %d bytes", limits.ZtocGzipText)
}

// trailer verifies the checksum and length of a member.
func (s *scanner) trailer() error {
	sum, err := s.take(32)
	if err != nil {
		return err
	}
	size, err := s.take(32)
	if err != nil {
		return err
	}
	s.align()
	if sum != s.sum.Sum32() || size != uint32((s.offset()-s.member)&0xffffffff) {
		return invalidf("its gzip stream is damaged: the checksum or length differs")
	}
	return nil
}

// FromTar reads an uncompressed layer to its end and returns its zTOC. An invalid layer is
// ErrInvalid; other errors are those of the reader.
func FromTar(in io.Reader) (*Ztoc, error) {
	z := &Ztoc{}
	t := newTOC()
	for {
		sum := digest.SHA256.Digester()
		n, err := io.Copy(io.MultiWriter(sum.Hash(), t), io.LimitReader(in, SpanSize))
		if err != nil {
			return nil, fmt.Errorf("reading the layer: %w", err)
		}
		if n == 0 {
			break
		}
		z.Compressed += n
		z.spanDigests = append(z.spanDigests, sum.Digest().String())
		if len(z.spanDigests)*checkpointSize > limits.ZtocBytes {
			return nil, invalidf("it is too large: it has more than %d spans", len(z.spanDigests))
		}
	}
	if err := t.finish(); err != nil {
		return nil, err
	}
	if z.Compressed == 0 {
		return nil, invalidf("it is empty")
	}
	z.Uncompressed, z.files, z.checkpoints = t.size, t.files, encodeTarInfo(z.Compressed)
	return z, nil
}
