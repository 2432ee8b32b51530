package layering

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/chunked"
	"slipway.dev/services/internal/erofslayer"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ztoc"
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

// An encoding is how a layer is compressed.
type encoding struct {
	Compression
	// indexed is set if the zTOC of the layer is recorded while it is compressed. The bytes of the
	// layer are the same.
	indexed bool
	// scratch is the folder for temporary files; "" is the system's.
	scratch string
	// copy, if not nil, receives the tar of the layer, too.
	copy io.Writer
}

// shape returns what unused packers are found by.
func (c encoding) shape() encoding {
	return encoding{Compression: c.Compression, indexed: c.indexed, scratch: c.scratch}
}

// encoding returns how layers are compressed whose zTOCs are recorded if wanted is set. At some
// levels they have to be read from the layers. scratch is the folder for temporary files.
func (c Compression) encoding(wanted bool, scratch string) encoding {
	kind, level, isAt := c.split()
	return encoding{Compression: c, scratch: scratch, indexed: wanted && kind == Gzip && (!isAt || level >= gzip.BestSpeed && level <= gzipLevel)}
}

// packers holds unused packers by encoding.
//
//nolint:gochecknoglobals // nobody can tell one from a new one
var packers sync.Map // of *sync.Pool

// packer returns a packer that writes to out. It may be put back into the pool after Close.
func (c encoding) packer(out io.Writer) (*packer, error) {
	idle, _ := packers.LoadOrStore(c.shape(), &sync.Pool{})
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

func (c encoding) release(p *packer) {
	p.buffer.Reset(nil)
	idle, _ := packers.Load(c.shape())
	idle.(*sync.Pool).Put(p) //nolint:forcetypeassert // the map holds nothing else
}

// header states the entry whose header was just written.
func (p *packer) header(h *tar.Header) error {
	if w, ok := p.compressor.(*erofslayer.Writer); ok {
		err := w.Header(h)
		if errors.As(err, new(*erofslayer.Refusal)) {
			return fault.Invalid.New(fmt.Sprintf("The layer cannot be an EROFS image: %v; request another buildCompression.mode", err), err)
		}
		return err
	}
	w, ok := p.compressor.(*chunked.Writer)
	if !ok {
		return nil
	}
	err := w.Header(h)
	if errors.Is(err, chunked.ErrName) {
		return fault.Invalid.New(fmt.Sprintf("The file %s cannot be in a layer whose files are fetched one by one: its name is not UTF-8; request another buildCompression.mode", fault.Quote(h.Name)), err)
	}
	return err
}

// table returns what follows the tar in the layer when it is decompressed, and the annotations of the
// layer, after Close.
func (p *packer) table() (trailer []byte, annotations map[string]string) {
	if w, ok := p.compressor.(*chunked.Writer); ok {
		return w.Trailer(), w.Annotations()
	}
	return nil, nil
}

// diffID returns the digest of the layer when it is decompressed, after Close; "" if that is the tar and
// the trailer of table.
func (p *packer) diffID() digest.Digest {
	if w, ok := p.compressor.(*erofslayer.Writer); ok {
		return w.DiffID()
	}
	return ""
}

// Close ends the layer.
func (p *packer) Close() error { return errors.Join(p.compressor.Close(), p.buffer.Flush()) }

// gzipLevel takes half the time of the best level, for 3 % more bytes.
const gzipLevel = 6

// ztoc returns the zTOC of the layer after Close; nil if it was not recorded.
func (p *packer) ztoc() *ztoc.Ztoc {
	if w, ok := p.compressor.(*ztoc.Writer); ok {
		return w.Ztoc()
	}
	return nil
}

func (c encoding) compressor(out io.Writer) (compressor, error) {
	kind, level, isAt := c.split()
	speed := zstd.SpeedDefault
	if isAt {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	if kind == Erofs {
		return erofslayer.NewWriter(out, erofslayer.Raw, c.scratch)
	}
	if kind == ErofsZstd {
		return erofslayer.NewWriter(out, speed, c.scratch)
	}
	if kind == ZstdChunked {
		return chunked.NewWriter(out, chunked.Zstd, int(speed))
	}
	if kind == Zstd {
		// The number of processors must not affect the bytes, and all levels must need the
		// same memory for decompression.
		return zstd.NewWriter(out, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20))
	}
	if !isAt {
		level = gzipLevel
	}
	switch {
	case kind == Estargz:
		return chunked.NewWriter(out, chunked.Estargz, level)
	case c.indexed:
		return ztoc.NewWriter(out, level)
	}
	return gzip.NewWriterLevel(out, level)
}
