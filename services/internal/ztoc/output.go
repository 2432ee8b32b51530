package ztoc

import (
	"encoding/binary"
	"io"
	"math/bits"
)

// output receives the compressed stream of a Writer, computes the digests of its spans, and
// passes it on. It holds back the bytes whose span is not known.
type output struct {
	out    io.Writer
	buffer []byte
	base   int64 // offset of buffer in the stream
	points checkpoints
	spans  spans
	// waiting are ends of chunks of which is not known whether a block begins there, in order.
	waiting []boundary
}

const (
	outputBuffer = 64 << 10
	// headerSize and trailerSize are the lengths of the gzip header and trailer that the
	// compressor writes.
	headerSize, trailerSize = 10, 8
	// heldBack is how many bytes stay in the buffer: those of the last block and the trailer.
	heldBack = trailerSize + 4
)

// A boundary is the end of a chunk of input.
type boundary struct {
	position int64 // of the stream, in bits
	offset   int64 // of the input
	window   []byte
	// isOpen means that the block continues unless the code of the end of block follows, of
	// the given length.
	isOpen bool
	code   uint32
	length uint8
}

func (o *output) reset(out io.Writer) {
	o.out, o.buffer, o.base, o.points, o.waiting = out, o.buffer[:0], 0, checkpoints{}, nil
	o.spans.begin()
}

// begin adds the checkpoint of the first block.
func (o *output) begin() error { return o.points.add(headerSize*8, 0, nil) }

// length returns the length of the stream so far.
func (o *output) length() int64 { return o.base + int64(len(o.buffer)) }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.buffer = append(o.buffer, p...)
	if len(o.buffer) < outputBuffer-512 {
		return len(p), nil
	}
	if err := o.resolve(); err != nil {
		return 0, err
	}
	return len(p), o.flush(heldBack)
}

// flush passes on the bytes whose span is known, except the last ones.
func (o *output) flush(except int) error {
	n := len(o.buffer) - except
	if len(o.waiting) > 0 {
		n = min(n, int(o.waiting[0].position/8-o.base))
	}
	return o.pass(n)
}

// pass passes on the first n bytes. They belong to the current span.
func (o *output) pass(n int) error {
	if n <= 0 {
		return nil
	}
	first := min(max(headerSize-o.base, 0), int64(n)) // the header belongs to no span
	_, _ = o.spans.Write(o.buffer[first:n])
	if _, err := o.out.Write(o.buffer[:n]); err != nil {
		return err
	}
	o.buffer = append(o.buffer[:0], o.buffer[n:]...)
	o.base += int64(n)
	return nil
}

// resolve adds the checkpoints at waiting boundaries that the stream has reached.
func (o *output) resolve() error {
	for len(o.waiting) > 0 {
		b := o.waiting[0]
		if !o.points.due(b.offset) {
			o.waiting = o.waiting[1:]
			continue
		}
		if b.isOpen {
			if b.position+32 > o.length()*8 {
				return nil
			}
			if !o.ends(b) {
				o.waiting = o.waiting[1:]
				continue
			}
			b.position += int64(b.length)
		}
		if ceil(b.position) > o.length() {
			return nil
		}
		if err := o.checkpoint(b); err != nil {
			return err
		}
		o.waiting = o.waiting[1:]
	}
	return nil
}

// ends reports whether the end of the block follows at a boundary.
func (o *output) ends(b boundary) bool {
	at := b.position/8 - o.base
	next := binary.LittleEndian.Uint32(o.buffer[at:]) >> (b.position % 8)
	return next&(1<<b.length-1) == b.code
}

// checkpoint adds the checkpoint at a boundary.
func (o *output) checkpoint(b boundary) error {
	if err := o.points.add(b.position, b.offset, b.window); err != nil {
		return err
	}
	if err := o.pass(int(b.position/8 - o.base)); err != nil {
		return err
	}
	// A byte with bits of both spans stays in the buffer: it is the first of the next span.
	shared := o.buffer[:ceil(b.position)-o.base]
	_, _ = o.spans.Write(shared)
	o.spans.end(nil)
	return nil
}

// lastBlock returns the position of the last block of the complete stream: an empty block
// with a fixed code, whose ten bits are 1, 1, and zeros.
func (o *output) lastBlock() int64 {
	n := len(o.buffer) - trailerSize
	last := bits.Len16(binary.LittleEndian.Uint16(o.buffer[n-2 : n]))
	return (o.base+int64(n)-2)*8 + int64(last) - 2
}
