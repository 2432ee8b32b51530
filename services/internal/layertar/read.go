package layertar

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// harmless is how much a layer may hold however small it is, and proportion how
	// many times its stored size otherwise.
	harmless   = 100 << 20
	proportion = 200
	// window is the most that a zstd stream may ask for, in bytes.
	window = 32 << 20
)

// Reader goes through layers, one after the other, and counts what it sees in all of them.
// Make it with NewReader.
type Reader struct {
	limits  Limits
	entries int
	bytes   int64
	// packed and archive are for one layer at a time.
	packed, archive *bufio.Reader
}

// NewReader makes a reader that stops where the limits are passed.
func NewReader(l Limits) *Reader {
	return &Reader{limits: l, packed: bufio.NewReaderSize(nil, 64<<10), archive: bufio.NewReaderSize(nil, 128<<10)}
}

// Each calls f for every entry of a layer, numbered from 0. A *Refusal is the layer's
// fault; other errors are those of Open, of f, or of ctx.
func (r *Reader) Each(ctx context.Context, l Layer, f func(k int, h *tar.Header, content io.Reader) error) error {
	raw, err := l.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	source := &watched{ctx: ctx, in: raw}
	r.packed.Reset(source)
	unpacked, done, err := decompress(r.packed)
	if err == nil {
		defer done()
		err = r.entriesOf(l, unpacked, f)
	}
	if err == nil {
		// What follows the archive belongs to the layer: whoever opened it checks it
		// at its end.
		_, err = io.Copy(io.Discard, source)
	}
	switch {
	case source.err != nil:
		return fmt.Errorf("reading the layer %s: %w", l.Name, source.err)
	case errors.Is(err, errDamaged), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return &Refusal{Layer: l.Name, Why: "is damaged, or no archive", Cause: err}
	}
	return blame(l, err)
}

func (r *Reader) entriesOf(l Layer, unpacked io.Reader, f func(k int, h *tar.Header, content io.Reader) error) error {
	files := length{most: harmless}
	if l.Size > 0 {
		files.most = max(files.most, l.Size*proportion)
	}
	stream := &bounded{in: unpacked, left: files.most, total: &r.bytes, limits: r.limits, told: l.Unpacked}
	r.archive.Reset(stream)
	archive := tar.NewReader(r.archive)
	for k := 0; ; k++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, stream)
			return err
		}
		if err == nil {
			err = r.admit(h, &files)
		}
		if err == nil && h.Typeflag != tar.TypeXGlobalHeader {
			err = f(k, h, archive)
		}
		if err != nil {
			return err
		}
	}
}

// length is how long the files of a layer are together, and may be, in bytes. A sparse
// file holds more than its bytes in the stream.
type length struct{ sum, most int64 }

// admit counts an entry, and refuses the one that is too much.
func (r *Reader) admit(h *tar.Header, files *length) error {
	if r.entries++; r.limits.Entries > 0 && r.entries > r.limits.Entries {
		return r.limits.errEntries()
	}
	if IsFile(h) {
		files.sum += h.Size
	}
	if h.Size < 0 || files.sum < 0 || files.sum > files.most {
		return errProportion()
	}
	if r.limits.Bytes > 0 && files.sum > r.limits.Bytes {
		return r.limits.errBytes()
	}
	return nil
}

func errProportion() error { return Refuse("unpacks to more than is in proportion to its size") }

// bounded ends a stream that becomes too long.
type bounded struct {
	in     io.Reader
	left   int64
	total  *int64
	limits Limits
	told   func(n int64) error
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	b.left -= int64(n)
	*b.total += int64(n)
	switch {
	case b.left < 0:
		return 0, errProportion()
	case b.limits.Bytes > 0 && *b.total > b.limits.Bytes:
		return 0, b.limits.errBytes()
	case b.told != nil:
		if refused := b.told(int64(n)); refused != nil {
			return 0, refused
		}
	}
	return n, err
}

// watched tells the source's own errors from those of what it holds.
type watched struct {
	ctx context.Context //nolint:containedctx // for the time of one read
	in  io.Reader
	err error
}

func (s *watched) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.in.Read(p)
	// Not errors.Is: a registry client's "too short" is an io.EOF as well.
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// errDamaged marks what the compression says.
var errDamaged = errors.New("it cannot be decompressed")

// damaged marks the errors of a decompressor.
type damaged struct{ io.Reader }

func (d damaged) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return n, err
}

// decompress tells by the first bytes how a stream is compressed. The caller calls
// done when it has read.
func decompress(in *bufio.Reader) (out io.Reader, done func(), err error) {
	magic, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		return damaged{z}, func() { _ = z.Close() }, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, nil, err
		}
		return damaged{z}, z.Close, nil
	}
	return in, func() {}, nil
}
