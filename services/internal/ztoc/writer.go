package ztoc

import (
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
)

// Writer compresses a layer with the same bytes as gzip.Writer of klauspost/compress, and
// records the zTOC in the same pass. It is not safe for concurrent use.
//
// The compressor writes one deflate block for each chunk of its input, or continues the last
// block. The Writer therefore knows all offsets at which blocks may begin. Where a checkpoint
// is due it reads from the compressor how many bits it has written so far, and then in the
// stream whether the block ends there.
type Writer struct {
	gz      *gzip.Writer
	out     output
	toc     *toc
	total   int64 // length of the input
	next    int64 // the next chunk end at which a checkpoint is due
	tail    []byte
	err     error
	closed  bool
	encoder encoder
}

// chunk is how much input the compressor collects before it compresses it.
const chunk = 65535

// NewWriter returns a Writer for a level from 1 to 6. At higher levels blocks may begin
// anywhere: use FromGzip.
func NewWriter(out io.Writer, level int) (*Writer, error) {
	if level < gzip.BestSpeed || level > 6 {
		return nil, invalidf("it is compressed at a level from which no zTOC can be recorded: %d", level)
	}
	w := &Writer{}
	w.out.buffer = make([]byte, 0, outputBuffer)
	var err error
	if w.gz, err = gzip.NewWriterLevel(&w.out, level); err != nil {
		return nil, err
	}
	w.Reset(out)
	return w, nil
}

// Reset begins another layer. It may reuse the memory of the last one, but not of its Ztoc.
func (w *Writer) Reset(out io.Writer) {
	w.gz.Reset(&w.out)
	w.out.reset(out)
	w.toc, w.total, w.tail, w.err, w.closed = newTOC(), 0, w.tail[:0], nil, false
	w.next = chunkEndAfter(SpanSize)
	w.encoder = encoder{gz: w.gz}
	w.err = w.out.begin()
}

// chunkEndAfter returns the first end of a chunk after an offset.
func chunkEndAfter(offset int64) int64 { return (offset/chunk + 1) * chunk }

// Write compresses a part of the tar.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n := len(p)
	if _, w.err = w.toc.Write(p); w.err != nil {
		return 0, w.err
	}
	for len(p) > 0 && w.err == nil {
		part := p[:min(int64(len(p)), max(1, w.next-w.total))]
		atEnd := w.total == w.next
		if atEnd {
			part = p[:1] // the compressor compresses a chunk when the next one begins
		}
		if _, w.err = w.gz.Write(part); w.err == nil && atEnd {
			w.err = w.chunkEnd()
		}
		w.keepTail(part)
		p = p[len(part):]
	}
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

// keepTail keeps the input that may become the window of the next checkpoint.
func (w *Writer) keepTail(part []byte) {
	w.total += int64(len(part))
	if w.total <= w.out.points.last+SpanSize-windowSize {
		w.tail = w.tail[:0]
		return
	}
	if len(part) > windowSize {
		part = part[len(part)-windowSize:]
	}
	if len(w.tail)+len(part) > 4*windowSize {
		w.tail = append(w.tail[:0], w.window()...)
	}
	w.tail = append(w.tail, part...)
}

// window returns the last input.
func (w *Writer) window() []byte { return w.tail[max(0, len(w.tail)-windowSize):] }

// chunkEnd handles the end of a chunk at which a checkpoint is due.
func (w *Writer) chunkEnd() error {
	b, err := w.encoder.boundary(w.out.length())
	if err != nil {
		return err
	}
	b.offset, b.window = w.total, slices.Clone(w.window())
	w.out.waiting = append(w.out.waiting, b)
	if err := w.out.resolve(); err != nil {
		return err
	}
	w.next = max(w.next+chunk, chunkEndAfter(w.out.points.last+SpanSize))
	return nil
}

// Close ends the layer. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.err != nil || w.closed {
		return w.err
	}
	w.closed = true
	if w.err = w.gz.Close(); w.err != nil {
		return w.err
	}
	if w.err = w.out.resolve(); w.err != nil {
		return w.err
	}
	if w.out.points.due(w.total) && w.total > 0 {
		// The compressor ends the stream with an empty block, before which a block ends.
		last := boundary{position: w.out.lastBlock(), offset: w.total, window: w.window()}
		w.out.waiting = append(w.out.waiting, last)
		if w.err = w.out.resolve(); w.err != nil {
			return w.err
		}
	}
	if w.err = w.out.flush(0); w.err == nil {
		w.err = w.toc.finish()
	}
	return w.err
}

// Ztoc returns the zTOC after Close.
func (w *Writer) Ztoc() *Ztoc {
	w.out.spans.end(nil)
	return &Ztoc{
		Compressed: w.out.base, Uncompressed: w.toc.size, files: w.toc.files,
		gzip: true, spanDigests: w.out.spans.digests, checkpoints: w.out.points.encode(),
	}
}
