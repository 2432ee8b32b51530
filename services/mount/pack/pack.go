// Package pack writes and reads the blobs of packages that are mounted.
//
// A blob is a file in the seekable format of zstd: independent frames, followed by a table of their
// sizes. The first frames have the contents of the package's files, one frame for each chunk of
// erofs.ChunkSize bytes; each file begins at a multiple of erofs.BlockSize, and the gaps are zero.
// The last frame is the index of the package (package erofs), whose only device is the blob. So a
// blob is described by itself: whoever has it can mount the package, and an environment's index is
// made of the last frames of its packages' blobs.
//
// Equal entries produce equal bytes with the same version of the compressor, and the same
// erofs.Device with any.
package pack

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/erofs"
)

// Version is the version of the format. It is a part of the keys of blobs.
const Version = 1

// MediaType is the media type of a blob in a registry.
const MediaType = "application/vnd.slipway.package.v1+zstd"

// The end of a seekable zstd file: a frame that decoders skip, with 8 bytes for each frame (its
// compressed and its uncompressed size), their number, a descriptor, and a magic number. See
// https://github.com/facebook/zstd/blob/dev/contrib/seekable_format/zstd_seekable_compression_format.md.
const (
	skipMagic   = 0x184D2A5E
	seekMagic   = 0x8F92EAB1
	headSize    = 8
	footSize    = 9
	entrySize   = 8
	maxFrames   = 1 << 24
	maxFrame    = math.MaxUint32
	maxChunkZip = erofs.ChunkSize + erofs.ChunkSize/8 + 1024 // a chunk that does not compress
)

var le = binary.LittleEndian //nolint:gochecknoglobals // never changed

// ErrTooLarge is returned for a package with too many bytes or files for a blob.
var ErrTooLarge = errors.New("the package is too large to be mounted")

// A Package is the result of writing a blob.
type Package struct {
	// Device is the blob as an index refers to it.
	Device erofs.Device
	// Index is the index of the package.
	Index []byte
}

// Writer writes the blob of a package. It holds one chunk and the tree of the package in memory.
type Writer struct {
	out    *bufio.Writer
	enc    *zstd.Encoder
	tree   *erofs.Tree
	chunk  []byte // contents that are not written yet
	frame  []byte
	size   uint64
	chunks [][32]byte
	table  []byte
}

// encoders holds unused encoders, whose tables take megabytes.
//
//nolint:gochecknoglobals // encoders do not differ
var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		panic(err) // the options are valid
	}
	return e
}}

// NewWriter returns a writer to out.
func NewWriter(out io.Writer) *Writer {
	return &Writer{
		out: bufio.NewWriterSize(out, 256<<10), enc: encoders.Get().(*zstd.Encoder), //nolint:forcetypeassert // the pool has nothing else
		tree: erofs.NewTree(), chunk: make([]byte, 0, erofs.ChunkSize),
	}
}

// File adds a file of size bytes, which it reads from content. The permissions are those of mode
// without the bits for set-user-ID, set-group-ID and sticky.
func (w *Writer) File(path string, mode int64, mtime int64, size int64, content io.Reader) error {
	e := erofs.Entry{Mode: erofs.ModeFile | uint16(mode&0o777), Mtime: mtime, Size: uint64(size)}
	block := w.size / erofs.BlockSize
	if size < 0 || block+uint64(size)/erofs.BlockSize >= math.MaxUint32 {
		return ErrTooLarge
	}
	e.Block = uint32(block)
	if err := w.tree.Add(path, e); err != nil {
		return err
	}
	return w.content(path, size, content)
}

// content appends the contents of a file, and zeros up to the next block.
func (w *Writer) content(path string, size int64, content io.Reader) error {
	for left := size; left > 0; {
		free := w.chunk[len(w.chunk):cap(w.chunk)]
		n, err := io.ReadFull(content, free[:min(int64(len(free)), left)])
		w.chunk = w.chunk[:len(w.chunk)+n]
		left -= int64(n)
		if err != nil {
			return fmt.Errorf("reading %.200q: %w", path, err)
		}
		if err := w.flush(false); err != nil {
			return err
		}
	}
	if rest := len(w.chunk) % erofs.BlockSize; rest > 0 {
		n := len(w.chunk)
		w.chunk = w.chunk[:n+erofs.BlockSize-rest]
		clear(w.chunk[n:])
	}
	w.size += (uint64(size) + erofs.BlockSize - 1) / erofs.BlockSize * erofs.BlockSize
	return w.flush(false)
}

// flush writes a complete chunk, or the last one.
func (w *Writer) flush(last bool) error {
	if len(w.chunk) == 0 || len(w.chunk) < erofs.ChunkSize && !last {
		return nil
	}
	w.chunks = append(w.chunks, sha256.Sum256(w.chunk))
	err := w.write(w.chunk)
	w.chunk = w.chunk[:0]
	return err
}

// write writes a frame.
func (w *Writer) write(content []byte) error {
	w.frame = w.enc.EncodeAll(content, w.frame[:0])
	if len(w.frame) > maxFrame || len(w.table)/entrySize >= maxFrames {
		return ErrTooLarge
	}
	w.table = le.AppendUint32(le.AppendUint32(w.table, uint32(len(w.frame))), uint32(len(content)))
	_, err := w.out.Write(w.frame)
	return err
}

// Symlink adds a symbolic link.
func (w *Writer) Symlink(path, target string, mtime int64) error {
	return w.tree.Add(path, erofs.Entry{Mode: erofs.ModeLink | 0o777, Mtime: mtime, Target: target})
}

// Link adds a further name of the file target, which was added before.
func (w *Writer) Link(path, target string) error { return w.tree.Link(path, target) }

// Dir adds a directory. The parents of all entries are added without it.
func (w *Writer) Dir(path string) error { return w.tree.Dir(path) }

// Close writes the index and the table of frames. It does not close the underlying writer.
func (w *Writer) Close() (Package, error) {
	if err := w.flush(true); err != nil {
		return Package{}, err
	}
	p := Package{Device: erofs.NewDevice(w.size, w.chunks)}
	var err error
	if p.Index, err = w.tree.Encode([]erofs.Device{p.Device}); err != nil {
		return Package{}, err
	}
	if len(p.Index) > limits.MountPackageIndex {
		return Package{}, ErrTooLarge
	}
	if err := w.write(p.Index); err != nil {
		return Package{}, err
	}
	encoders.Put(w.enc)
	end := le.AppendUint32(nil, skipMagic)
	end = le.AppendUint32(end, uint32(len(w.table)+footSize))
	end = append(end, w.table...)
	end = le.AppendUint32(end, uint32(len(w.table)/entrySize))
	end = le.AppendUint32(append(end, 0), seekMagic)
	_, err = w.out.Write(end)
	return p, errors.Join(err, w.out.Flush())
}
