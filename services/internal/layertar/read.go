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

	"slipway.dev/services/internal/erofslayer"
)

const (
	// unpackedMin is the length, in bytes, that every layer may unpack to. Above it, the
	// limit is the layer's stored size times maxRatio.
	unpackedMin = 100 << 20
	maxRatio    = 200
	// maxWindow is the maximum window size of a zstd stream, in bytes.
	maxWindow = 32 << 20
)

// A Reader reads layers, one after the other, and applies its limits to all of them together.
// Use NewReader to create one.
type Reader struct {
	limits  Limits
	entries int
	bytes   int64
	// The buffers are reused for each layer.
	packed, archive *bufio.Reader
}

// NewReader returns a Reader with the given limits.
func NewReader(l Limits) *Reader {
	return &Reader{limits: l, packed: bufio.NewReaderSize(nil, 64<<10), archive: bufio.NewReaderSize(nil, 128<<10)}
}

// Each calls f for every entry of a layer. The entries are numbered from 0. Each returns a
// *LayerError if the layer is invalid. All other errors are those of Layer.Open, f or ctx.
func (r *Reader) Each(ctx context.Context, l Layer, f func(k int, h *tar.Header, content io.Reader) error) error {
	raw, err := l.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	source := &sourceReader{ctx: ctx, in: raw}
	r.packed.Reset(source)
	unpacked, done, err := decompress(r.packed)
	if err == nil {
		defer done()
		err = r.entriesOf(l, unpacked, f)
	}
	if err == nil {
		// Read the data after the archive as well, because the reader verifies the content
		// when its end is reached.
		_, err = io.Copy(io.Discard, source)
	}
	switch {
	case source.err != nil:
		return fmt.Errorf("reading the layer %s: %w", l.Name, source.err)
	case errors.Is(err, errDamaged), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return &LayerError{Layer: l.Name, Reason: "is damaged, or no archive", Cause: err}
	case errors.As(err, new(*erofslayer.Refusal)):
		return &LayerError{Layer: l.Name, Reason: "cannot be read", Cause: err}
	}
	return withLayer(l, err)
}

func (r *Reader) entriesOf(l Layer, unpacked io.Reader, f func(k int, h *tar.Header, content io.Reader) error) error {
	files := fileBytes{limit: unpackedMin}
	if l.Size > 0 {
		files.limit = max(files.limit, l.Size*maxRatio)
	}
	stream := &boundedReader{in: unpacked, left: files.limit, total: &r.bytes, limits: r.limits, unpacked: l.Unpacked}
	r.archive.Reset(stream)
	if head, _ := r.archive.Peek(erofslayer.HeadSize); erofslayer.IsImage(head) { // a read error occurs again below
		k := 0
		return erofslayer.Each(r.archive, nil, func(h *tar.Header, content io.Reader) error {
			if err := r.admit(h, &files); err != nil {
				return err
			}
			k++
			return f(k-1, h, content)
		})
	}
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

// fileBytes is the total length of the files in a layer and its limit, in bytes. It is
// counted separately from the stream, because a sparse file is longer than its data in the
// stream.
type fileBytes struct{ sum, limit int64 }

// admit counts an entry. It returns an error if a limit is exceeded.
func (r *Reader) admit(h *tar.Header, files *fileBytes) error {
	if r.entries++; r.limits.Entries > 0 && r.entries > r.limits.Entries {
		return r.limits.errEntries()
	}
	if IsFile(h) {
		files.sum += h.Size
	}
	if h.Size < 0 || files.sum < 0 || files.sum > files.limit {
		return errProportion()
	}
	if r.limits.Bytes > 0 && files.sum > r.limits.Bytes {
		return r.limits.errBytes()
	}
	return nil
}

func errProportion() error {
	return Invalidf("unpacks to more than %d MiB and more than %d times its stored size", unpackedMin>>20, maxRatio)
}

// A boundedReader returns an error when the stream exceeds a limit.
type boundedReader struct {
	in       io.Reader
	left     int64
	total    *int64
	limits   Limits
	unpacked func(n int64) error
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	b.left -= int64(n)
	*b.total += int64(n)
	switch {
	case b.left < 0:
		return 0, errProportion()
	case b.limits.Bytes > 0 && *b.total > b.limits.Bytes:
		return 0, b.limits.errBytes()
	case b.unpacked != nil:
		if err := b.unpacked(int64(n)); err != nil {
			return 0, err
		}
	}
	return n, err
}

// A sourceReader records the errors of reading the layer, to distinguish them from errors
// in the layer's format.
type sourceReader struct {
	ctx context.Context //nolint:containedctx // used for the reads of one call of Each
	in  io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.in.Read(p)
	// errors.Is would be wrong here: a registry client's "too short" error wraps io.EOF.
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// errDamaged marks the errors of a decompressor.
var errDamaged = errors.New("it cannot be decompressed")

// A damagedReader wraps the errors of a decompressor in errDamaged.
type damagedReader struct{ io.Reader }

func (d damagedReader) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return n, err
}

// decompress detects the compression by the first bytes of a stream and returns the
// decompressed stream. The caller calls done after reading it.
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
		return damagedReader{z}, func() { _ = z.Close() }, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return damagedReader{z}, z.Close, nil
	}
	return in, func() {}, nil
}
