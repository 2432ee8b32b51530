package layering

import (
	"bufio"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packer compresses layers. It is reused, since its allocation takes as long as packing a
// small package. Its output does not depend on earlier layers.
type packer struct {
	compressor
	buffer *bufio.Writer // collects the compressor's small writes of about 250 bytes
	piece  []byte        // copy buffer, reused for the thousands of files of a package
}

type compressor interface {
	io.WriteCloser
	Reset(out io.Writer)
}

// packers holds unused packers by Compression.
//
//nolint:gochecknoglobals // nobody can tell one from a new one
var packers sync.Map // of *sync.Pool

// packer returns a packer that writes to out. It may be put back into the pool after Close.
func (c Compression) packer(out io.Writer) (*packer, error) {
	idle, _ := packers.LoadOrStore(c, &sync.Pool{})
	if p, ok := idle.(*sync.Pool).Get().(*packer); ok {
		p.buffer.Reset(out)
		p.Reset(p.buffer)
		return p, nil
	}
	p := &packer{buffer: bufio.NewWriterSize(out, 64<<10), piece: make([]byte, 64<<10)}
	var err error
	p.compressor, err = c.compressor(p.buffer)
	return p, err
}

func (c Compression) release(p *packer) {
	p.buffer.Reset(nil)
	idle, _ := packers.Load(c)
	idle.(*sync.Pool).Put(p) //nolint:forcetypeassert // the map holds nothing else
}

// Close ends the layer.
func (p *packer) Close() error { return errors.Join(p.compressor.Close(), p.buffer.Flush()) }

// gzipLevel takes half the time of the best level, for 3 % more bytes.
const gzipLevel = 6

func (c Compression) compressor(out io.Writer) (compressor, error) {
	kind, level, isAt := c.split()
	if kind == Zstd {
		speed := zstd.SpeedDefault
		if isAt {
			speed = zstd.EncoderLevelFromZstd(level)
		}
		// The number of processors must not affect the bytes, and all levels must need the
		// same memory for decompression.
		return zstd.NewWriter(out, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20))
	}
	if !isAt {
		level = gzipLevel
	}
	return gzip.NewWriterLevel(out, level)
}
