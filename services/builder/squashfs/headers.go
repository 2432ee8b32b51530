package squashfs

import (
	"archive/tar"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/builder/arena"
)

// headers is a tar of headers that is compressed in memory, in frames of frameSize bytes.
type headers struct {
	out    *tar.Writer
	encode *zstd.Encoder
	packed *arena.Bytes
	raw    []byte
	frame  []byte
	length int64 // before compression
}

const frameSize = 256 << 10

func newHeaders(c *Compressor, memory *arena.Arena) *headers {
	l := &headers{encode: c.listings, packed: arena.NewBytes(memory)}
	l.out = tar.NewWriter(l)
	return l
}

// add adds a header with its content.
func (l *headers) add(h *tar.Header, content []byte) error {
	if err := l.out.WriteHeader(h); err != nil {
		return err
	}
	_, err := l.out.Write(content)
	return err
}

// Write implements io.Writer for the tar.
func (l *headers) Write(p []byte) (int, error) {
	l.raw = append(l.raw, p...)
	if len(l.raw) < frameSize {
		return len(p), nil
	}
	return len(p), l.flush()
}

func (l *headers) flush() error {
	l.length += int64(len(l.raw))
	l.frame = l.encode.EncodeAll(l.raw, l.frame[:0])
	l.raw = l.raw[:0]
	_, err := l.packed.Write(l.frame)
	return err
}

func (l *headers) close() error {
	if err := l.out.Close(); err != nil {
		return err
	}
	return l.flush()
}
