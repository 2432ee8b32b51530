package layering

import (
	"bufio"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packer compresses a layer. One is used for layer after layer: to make what it works in
// takes as long as to pack a small package. What it writes does not depend on what it
// wrote before.
type packer struct {
	compressor
	buffer *bufio.Writer // a compressor's words are 250 bytes long
	piece  []byte        // of a file: packages have thousands
}

type compressor interface {
	io.WriteCloser
	Reset(out io.Writer)
}

// packers are those that nobody uses, by Compression.
//
//nolint:gochecknoglobals // nobody can tell one from a new one
var packers sync.Map // of *sync.Pool

// packer returns one that writes to out. Whoever has closed it may give it back.
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

func (c Compression) giveBack(p *packer) {
	p.buffer.Reset(nil)
	idle, _ := packers.Load(c)
	idle.(*sync.Pool).Put(p) //nolint:forcetypeassert // the map holds nothing else
}

// Close ends the layer.
func (p *packer) Close() error { return errors.Join(p.compressor.Close(), p.buffer.Flush()) }

// gzipLevel costs half of the time of the best, for 3 % more bytes.
const gzipLevel = 6

func (c Compression) compressor(out io.Writer) (compressor, error) {
	kind, level, isAt := c.split()
	if kind == Zstd {
		speed := zstd.SpeedDefault
		if isAt {
			speed = zstd.EncoderLevelFromZstd(level)
		}
		// The number of processors must not show in the bytes; and every level is read
		// with as little memory.
		return zstd.NewWriter(out, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20))
	}
	if !isAt {
		level = gzipLevel
	}
	return gzip.NewWriterLevel(out, level)
}
