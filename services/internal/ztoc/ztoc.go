// Package ztoc creates zTOCs, which let an engine with the SOCI snapshotter start a container
// before its layers are downloaded. The zTOC of a layer lists its files, and the positions
// (checkpoints) at which decompression can begin. The format is that of soci-snapshotter
// (https://github.com/awslabs/soci-snapshotter, docs/ztoc.md), version 0.9.
//
// The zTOC is a pure function of the layer's bytes: Writer records it while it compresses a
// layer, FromGzip and FromTar read it from an existing layer, and both return the same bytes,
// which are also those of soci-snapshotter. The package stores nothing.
package ztoc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"slipway.dev/services/internal/limits"
)

const (
	// MediaType is the media type of a zTOC.
	MediaType = "application/octet-stream"
	// SpanSize is the minimum number of uncompressed bytes between two checkpoints of a
	// gzip layer, and the exact number for a plain tar.
	SpanSize = 4 << 20
	// version is the version of the format.
	version = "0.9"
	// windowSize is the length of the history that decompression needs at a checkpoint.
	windowSize = 32 << 10
)

// ErrInvalid is returned for a layer that is damaged, exceeds a limit, or has content that
// zTOCs cannot represent. Retrying does not help.
var ErrInvalid = errors.New("the layer has no zTOC")

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// A Ztoc is the zTOC of one layer.
type Ztoc struct {
	// Compressed and Uncompressed are the length of the layer and of its tar in bytes. The
	// tar ends with its second zero block.
	Compressed, Uncompressed int64

	files       []file
	gzip        bool
	spanDigests []string
	checkpoints []byte
}

// Spans returns the number of parts that can be fetched and decompressed separately.
func (z *Ztoc) Spans() int { return len(z.spanDigests) }

// Files returns the number of entries of the tar.
func (z *Ztoc) Files() int { return len(z.files) }

// checkpoints collects the checkpoints of a gzip stream.
type checkpoints struct {
	packed []byte
	count  int
	last   int64 // the uncompressed offset of the last checkpoint
}

// checkpointSize is the length of an encoded checkpoint.
const checkpointSize = 8 + 8 + 1 + windowSize

// due reports whether a checkpoint belongs at the end of a deflate block at an uncompressed
// offset.
func (c *checkpoints) due(out int64) bool { return out == 0 || out-c.last > SpanSize }

// add adds a checkpoint. The position is that of a deflate block in bits from the beginning
// of the layer. The window is the uncompressed data before it, at most windowSize bytes.
func (c *checkpoints) add(position, out int64, window []byte) error {
	if len(c.packed)+checkpointSize > limits.ZtocBytes {
		return invalidf("it is too large: its checkpoints have more than %d MiB", limits.ZtocBytes>>20)
	}
	in, unused := ceil(position), ceil(position)*8-position
	c.packed = binary.LittleEndian.AppendUint64(c.packed, uint64(in))
	c.packed = binary.LittleEndian.AppendUint64(c.packed, uint64(out))
	c.packed = append(c.packed, byte(unused))
	c.packed = append(c.packed, make([]byte, windowSize-len(window))...)
	c.packed = append(c.packed, window...)
	c.count++
	c.last = out
	return nil
}

// ceil returns the first whole byte at or after a position in bits.
func ceil(position int64) int64 { return (position + 7) / 8 }

// encode returns the checkpoints as the zTOC stores them.
func (c *checkpoints) encode() []byte {
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, 12+len(c.packed)), uint32(c.count))
	out = binary.LittleEndian.AppendUint64(out, SpanSize)
	return append(out, c.packed...)
}
