package erofslayer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// Raw is the level of layers that are not compressed.
const Raw zstd.EncoderLevel = 0

// A Writer encodes a tar as a layer. Call Header after the bytes of an entry's header were written, and
// before its content. The layer is written by Close. Writer is not safe for concurrent use.
type Writer struct {
	out     io.Writer
	encoder *zstd.Encoder // nil for Raw

	tree     tree
	left     uint64 // bytes of content that follow
	contents spool
	tar, sum hash.Hash // of the tar, and of the image
}

// NewWriter returns a Writer of layers with a level, or Raw. The contents of files are collected in a
// temporary file in the folder scratch; "" is the system's.
func NewWriter(out io.Writer, level zstd.EncoderLevel, scratch string) (*Writer, error) {
	w := &Writer{tar: sha256.New(), sum: sha256.New(), contents: spool{dir: scratch}}
	if level != Raw {
		var err error
		// The number of processors must not affect the bytes.
		if w.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20)); err != nil {
			return nil, err
		}
	}
	w.Reset(out)
	return w, nil
}

// Reset begins another layer, and reuses memory of the last one.
func (w *Writer) Reset(out io.Writer) {
	w.out, w.tree, w.left = out, newTree(), 0
	w.tar.Reset()
	w.sum.Reset()
	w.contents.reset()
}

// Header adds an entry whose header was just written. It returns a *Refusal if the image cannot have it.
func (w *Writer) Header(h *tar.Header) error {
	if w.left > 0 {
		return fmt.Errorf("%d bytes of the last file are missing", w.left)
	}
	n, err := w.tree.add(h)
	if err != nil || n == nil || n.mode&modeType != modeFile {
		return err
	}
	n.block, w.left = w.contents.size/blockSize, n.size
	return nil
}

// Write adds a part of the tar.
func (w *Writer) Write(p []byte) (int, error) {
	_, _ = w.tar.Write(p)
	if w.left == 0 { // a header, or padding
		return len(p), nil
	}
	part := p[:min(uint64(len(p)), w.left)]
	if err := w.contents.write(part); err != nil {
		return 0, err
	}
	if w.left -= uint64(len(part)); w.left == 0 {
		return len(p), w.contents.pad()
	}
	return len(p), nil
}

// Close writes the layer.
func (w *Writer) Close() error {
	defer w.contents.reset()
	if w.left > 0 {
		return fmt.Errorf("%d bytes of the last file are missing", w.left)
	}
	m, err := newImage(&w.tree, w.contents.size/blockSize, uuidOf(w.tar.Sum(nil)))
	if err != nil {
		return err
	}
	contents, err := w.contents.reader()
	if err != nil {
		return err
	}
	to := w.out
	if w.encoder != nil {
		w.encoder.Reset(w.out)
		to = w.encoder
	}
	buffer := bufio.NewWriterSize(io.MultiWriter(to, w.sum), 64<<10)
	if err := m.write(buffer); err != nil {
		return err
	}
	if _, err := io.Copy(buffer, contents); err != nil {
		return err
	}
	err = buffer.Flush()
	if w.encoder != nil {
		err = errors.Join(err, w.encoder.Close())
	}
	w.tree = tree{} // it is large
	return err
}

// DiffID returns the digest of the image before compression, after Close. It is the layer's diff ID.
func (w *Writer) DiffID() digest.Digest { return digest.NewDigest(digest.SHA256, w.sum) }

// uuidOf returns a UUID of version 8 that is made from a digest.
func uuidOf(sum []byte) (out [16]byte) {
	copy(out[:], sum)
	out[6] = out[6]&0x0f | 0x80
	out[8] = out[8]&0x3f | 0x80
	return out
}

// A spool collects contents, in memory up to limits.ErofsMemory and then in a file.
type spool struct {
	dir    string
	memory bytes.Buffer
	file   *os.File // nil while the contents are in memory
	size   uint64
}

// reset removes the contents.
func (s *spool) reset() {
	if s.file != nil {
		_ = s.file.Close() // it has no name any more
	}
	s.file, s.size = nil, 0
	s.memory.Reset()
}

func (s *spool) write(p []byte) error {
	s.size += uint64(len(p))
	if s.file == nil && s.memory.Len()+len(p) > limits.ErofsMemory {
		f, err := os.CreateTemp(s.dir, "erofs-")
		if err != nil {
			return err
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
	}
	if s.file == nil {
		_, err := s.memory.Write(p)
		return err
	}
	if s.memory.Len()+len(p) > limits.ErofsMemory {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if len(p) > limits.ErofsMemory {
		_, err := s.file.Write(p)
		return err
	}
	_, err := s.memory.Write(p)
	return err
}

func (s *spool) flush() error {
	_, err := s.file.Write(s.memory.Bytes())
	s.memory.Reset()
	return err
}

// pad adds zeros up to the next block.
func (s *spool) pad() error { return s.write(make([]byte, roundUp(s.size, blockSize)-s.size)) }

// reader returns a reader of the contents.
func (s *spool) reader() (io.Reader, error) {
	if s.file == nil {
		return &s.memory, nil
	}
	if err := s.flush(); err != nil {
		return nil, err
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}
