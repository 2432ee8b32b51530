package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/erofs"
)

var errBroken = errors.New("the blob is malformed")

// TableSize returns the length in bytes of the end of a blob that ParseTable parses, for a blob with
// this number of chunks.
func TableSize(chunks int) int { return headSize + entrySize*(chunks+1) + footSize }

// A Table has the positions of the frames of a blob.
type Table struct {
	// starts are the positions of the frames, and of the end of the last one.
	starts []int64
	index  int64 // uncompressed size of the index
}

// ParseTable parses the end of a blob. The argument end has TableSize(chunks) bytes, and size is the
// length of the blob in bytes.
func ParseTable(end []byte, chunks int, size int64) (Table, error) {
	frames := chunks + 1
	if chunks < 0 || len(end) != TableSize(chunks) || le.Uint32(end) != skipMagic || uint64(le.Uint32(end[4:])) != uint64(len(end)-headSize) {
		return Table{}, errBroken
	}
	foot := end[len(end)-footSize:]
	if uint64(le.Uint32(foot)) != uint64(frames) || foot[4] != 0 || le.Uint32(foot[5:]) != seekMagic {
		return Table{}, errBroken
	}
	t := Table{starts: make([]int64, frames+1)}
	for i := range frames {
		packed, unpacked := le.Uint32(end[headSize+entrySize*i:]), le.Uint32(end[headSize+entrySize*i+4:])
		if i < chunks && (packed > maxChunkZip || unpacked > erofs.ChunkSize) {
			return Table{}, errBroken
		}
		t.starts[i+1] = t.starts[i] + int64(packed)
		t.index = int64(unpacked)
	}
	if t.starts[frames]+int64(len(end)) != size || t.index > limits.MountPackageIndex {
		return Table{}, errBroken
	}
	return t, nil
}

// Chunks returns the number of chunks.
func (t Table) Chunks() int { return len(t.starts) - 2 }

// Frame returns the position and the length in bytes of the frames of the chunks from first to
// before end.
func (t Table) Frame(first, end int) (at, length int64) {
	return t.starts[first], t.starts[end] - t.starts[first]
}

// tailSize is the number of bytes at the end of a blob that ReadIndex reads first. They contain the
// table and the index of most packages, so that one request to a registry is enough.
const tailSize = 256 << 10

// ReadIndex returns the index of the package of a blob of size bytes. It reads the end of the blob
// in at most two parts.
func ReadIndex(blob io.ReaderAt, size int64) ([]byte, error) {
	tail := make([]byte, min(size, tailSize))
	if size < int64(TableSize(0)) {
		return nil, errBroken
	}
	if _, err := blob.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	frames := int64(le.Uint32(tail[len(tail)-footSize:]))
	if frames < 1 || frames > maxFrames || headSize+entrySize*frames+footSize > size {
		return nil, errBroken
	}
	end := int64(TableSize(int(frames) - 1))
	table, err := lastPart(blob, size, tail, end)
	if err != nil {
		return nil, err
	}
	t, err := ParseTable(table, int(frames)-1, size)
	if err != nil {
		return nil, err
	}
	at, last := t.starts[frames-1], t.starts[frames]
	if last-at > limits.MountPackageIndex {
		return nil, errBroken
	}
	frame, err := lastPart(blob, size, tail, size-at)
	if err != nil {
		return nil, err
	}
	return t.decodeIndex(bytes.NewReader(frame[:last-at]))
}

// lastPart returns the last length bytes of a blob, of which tail are the last ones.
func lastPart(blob io.ReaderAt, size int64, tail []byte, length int64) ([]byte, error) {
	if length <= int64(len(tail)) {
		return tail[int64(len(tail))-length:], nil
	}
	out := make([]byte, length)
	copy(out[length-int64(len(tail)):], tail)
	_, err := blob.ReadAt(out[:length-int64(len(tail))], size-length)
	return out, err
}

// decodeIndex decodes the last frame. It reads as it decodes, so that a wrong size of it costs
// nothing.
func (t Table) decodeIndex(frame io.Reader) ([]byte, error) {
	d, err := zstd.NewReader(frame, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	index, err := io.ReadAll(io.LimitReader(d, t.index+1))
	if err != nil {
		return nil, fmt.Errorf("decoding the index of a package: %w", err)
	}
	if int64(len(index)) != t.index {
		return nil, errBroken
	}
	return index, nil
}

// A Decoder decodes frames. It is safe for concurrent use.
type Decoder struct{ d *zstd.Decoder }

// NewDecoder returns a decoder.
func NewDecoder() (*Decoder, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(erofs.ChunkSize), zstd.WithDecoderLowmem(true))
	return &Decoder{d}, err
}

// Chunk appends the contents of a frame, of at most erofs.ChunkSize bytes, to out. The caller
// verifies their digest.
func (d *Decoder) Chunk(frame, out []byte) ([]byte, error) {
	return d.d.DecodeAll(frame, out)
}
