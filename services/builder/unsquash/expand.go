package unsquash

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Ids of compressors in a superblock.
const (
	isGzip, isLzma, isLzo, isXz, isLz4, isZstd = 1, 2, 3, 4, 5, 6
)

// maxWindow is the size of the largest block in bytes, and the largest zstd window that is
// accepted.
const maxWindow = 1 << 20

// An expander expands a block to at most limit bytes.
type expander func(packed []byte, limit int) ([]byte, error)

func newExpander(compression uint16) (expander, error) {
	names := map[uint16]string{isLzma: "lzma", isLzo: "lzo", isXz: "xz", isLz4: "lz4"}
	switch compression {
	case isGzip:
		return expandGzip, nil
	case isZstd:
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			return nil, err
		}
		return func(packed []byte, limit int) ([]byte, error) {
			out, err := z.DecodeAll(packed, make([]byte, 0, limit))
			return bounded(out, limit, err)
		}, nil
	}
	if name := names[compression]; name != "" {
		return nil, refuse("its blocks are compressed with %s; gzip and zstd can be read", name)
	}
	return nil, refuse("its blocks are compressed in an unknown way")
}

func expandGzip(packed []byte, limit int) ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, refuse("a block cannot be expanded")
	}
	defer z.Close()
	out := bytes.NewBuffer(make([]byte, 0, limit+bytes.MinRead))
	_, err = out.ReadFrom(io.LimitReader(z, int64(limit)+1))
	return bounded(out.Bytes(), limit, err)
}

func bounded(out []byte, limit int, err error) ([]byte, error) {
	if err != nil || len(out) > limit {
		return nil, refuse("a block cannot be expanded")
	}
	return out, nil
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
