package squashfs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Compression selects how blocks are compressed. The zero value is zstd at level 3.
type Compression struct {
	// Name is "zstd" or "gzip".
	Name string
	// Level is the compressor's own level: up to 22 for zstd, up to 9 for gzip. 0 means 3
	// for zstd and 6 for gzip.
	Level int
}

// Ids of compressors in a superblock.
const (
	isGzip = 1
	isZstd = 6
)

// gzipWindow is the base-2 logarithm of gzip's window.
const gzipWindow = 15

// id returns the compressor's id and the options that follow the superblock.
func (c Compression) id() (id uint16, options []byte) {
	if c.Name == "gzip" {
		options = binary.LittleEndian.AppendUint32(nil, uint32(c.Level))
		options = binary.LittleEndian.AppendUint16(options, gzipWindow)
		return isGzip, binary.LittleEndian.AppendUint16(options, 0)
	}
	return isZstd, binary.LittleEndian.AppendUint32(nil, uint32(c.Level))
}

// withDefaults replaces zero values with defaults.
func (c Compression) withDefaults() Compression {
	switch {
	case c.Name == "":
		c.Name = "zstd"
		c.Level = 3
	case c.Level == 0 && c.Name == "gzip":
		c.Level = 6
	case c.Level == 0:
		c.Level = 3
	}
	return c
}

// A Compressor compresses parts and images. It is safe for concurrent use.
type Compressor struct {
	Compression
	workers  int
	pack     packer
	listings *zstd.Encoder // of the listings of parts
}

// NewCompressor returns a compressor for parts and images, of which each has up to workers blocks
// compressed concurrently; 0 is one. It returns an error if c is not valid.
func NewCompressor(c Compression, workers int) (*Compressor, error) {
	c, workers = c.withDefaults(), max(workers, 1)
	pack, err := newPacker(c, workers)
	if err != nil {
		return nil, err
	}
	listings, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(workers), zstd.WithWindowSize(frameSize), zstd.WithLowerEncoderMem(true))
	return &Compressor{c, workers, pack, listings}, err
}

// Version identifies everything that determines the bytes of a part, in addition to its layer: the
// formats, the compression, and the version of the library that compresses.
func (c *Compressor) Version() string {
	library := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/klauspost/compress" {
				library = m.Version
			}
		}
	}
	return fmt.Sprintf("%d %s-%d %s", partVersion, c.Name, c.Level, library)
}

// A packer compresses a block of at most blockSize bytes and appends the result to dst. It
// is safe for concurrent use.
type packer func(dst, src []byte) []byte

// newPacker returns a packer that up to workers goroutines can run concurrently.
func newPacker(c Compression, workers int) (packer, error) {
	switch c.Name {
	case "zstd":
		// The kernel allows a window of one block.
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(c.Level)), zstd.WithEncoderConcurrency(workers),
			zstd.WithWindowSize(blockSize), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, err
		}
		return func(dst, src []byte) []byte { return z.EncodeAll(src, dst) }, nil
	case "gzip":
		if _, err := zlib.NewWriterLevel(nil, c.Level); err != nil {
			return nil, err
		}
		return gzipPacker(c.Level), nil
	}
	return nil, fmt.Errorf("squashfs cannot be compressed with %q", c.Name)
}

func gzipPacker(level int) packer {
	spare := sync.Pool{New: func() any {
		z, _ := zlib.NewWriterLevel(nil, level) // newPacker has validated the level
		return z
	}}
	return func(dst, src []byte) []byte {
		z, _ := spare.Get().(*zlib.Writer)
		defer spare.Put(z)
		out := bytes.NewBuffer(dst)
		z.Reset(out)
		_, _ = z.Write(src) // a Buffer never fails
		_ = z.Close()
		return out.Bytes()
	}
}
