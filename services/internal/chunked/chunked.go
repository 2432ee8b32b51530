// Package chunked compresses layers whose files engines can fetch one by one: as eStargz
// (https://github.com/containerd/stargz-snapshotter, docs/estargz.md) and as zstd:chunked
// (https://github.com/containers/storage, pkg/chunked). Other engines read them as ordinary gzip
// and zstd layers.
//
// In both formats the content of each file is a part of the stream that can be decompressed on its
// own, and a table of contents (TOC) follows the last file. Annotations of the layer's descriptor
// have the digest of the TOC. The result is a pure function of the tar, the format and the level.
// The package stores nothing.
package chunked

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
)

// A Format is a format of layers.
type Format int

// Formats.
const (
	Estargz Format = iota
	Zstd
)

// ErrName is returned for a file whose name no TOC can represent.
var ErrName = errors.New("its name is not UTF-8")

// chunkSize is the maximum length of a part of a file that can be fetched separately from an eStargz
// layer, as of stargz-snapshotter. A zstd:chunked layer has one part for each file.
const chunkSize = 4 << 20

// A frame is a compressor of the parts of a layer.
type frame interface {
	io.WriteCloser
	Reset(out io.Writer)
}

// Writer compresses a tar. Call Header after the bytes of an entry's header were written, and before
// its content. Writer is not safe for concurrent use.
type Writer struct {
	format Format
	level  int
	out    counter
	frame  frame
	isOpen bool // the frame has begun

	entries []*entry
	file    *entry    // the file whose content is being written
	part    *entry    // its current part
	left    int64     // bytes of content that follow
	sum     hash.Hash // of the content
	partSum hash.Hash // of the part

	raw     int64  // length of the tar so far
	split   *split // for Zstd
	trailer []byte
	notes   map[string]string
}

// entry is an entry of a TOC, in both formats.
type entry struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	LinkName    string `json:"linkName,omitempty"`
	Mode        int64  `json:"mode,omitempty"`
	Size        int64  `json:"size,omitempty"`
	UID         int    `json:"uid,omitempty"`
	GID         int    `json:"gid,omitempty"`
	ModTime     string `json:"modtime,omitempty"`
	Digest      string `json:"digest,omitempty"`
	Offset      int64  `json:"offset,omitempty"`
	EndOffset   int64  `json:"endOffset,omitempty"`
	ChunkOffset int64  `json:"chunkOffset,omitempty"`
	ChunkSize   int64  `json:"chunkSize,omitempty"`
	ChunkDigest string `json:"chunkDigest,omitempty"`
}

// counter counts written bytes.
type counter struct {
	out io.Writer
	n   int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
}

// NewWriter returns a Writer with a level of klauspost/compress: of gzip for Estargz, and a
// zstd.EncoderLevel for Zstd.
func NewWriter(out io.Writer, format Format, level int) (*Writer, error) {
	w := &Writer{format: format, level: level, sum: sha256.New(), partSum: sha256.New()}
	var err error
	if w.frame, err = w.newFrame(); err != nil {
		return nil, err
	}
	if format == Zstd {
		if w.split, err = newSplit(w.newFrame); err != nil {
			return nil, err
		}
	}
	w.Reset(out)
	return w, nil
}

func (w *Writer) newFrame() (frame, error) {
	if w.format == Zstd {
		// The number of processors must not affect the bytes.
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(w.level)), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20))
	}
	return gzip.NewWriterLevel(nil, w.level)
}

// Reset begins another layer, and reuses memory of the last one.
func (w *Writer) Reset(out io.Writer) {
	w.out, w.isOpen = counter{out: out}, false
	w.entries, w.file, w.part, w.left = nil, nil, nil, 0
	w.raw, w.trailer, w.notes = 0, nil, nil
	if w.split != nil {
		w.split.reset()
	}
}

// Header adds an entry whose header was just written.
func (w *Writer) Header(h *tar.Header) error {
	if w.left > 0 {
		return fmt.Errorf("%d bytes of the last file are missing", w.left)
	}
	if !utf8.ValidString(h.Name) || !utf8.ValidString(h.Linkname) {
		return fmt.Errorf("%q: %w", h.Name, ErrName)
	}
	e := &entry{Type: kind(h.Typeflag), Name: h.Name, LinkName: h.Linkname, Mode: h.Mode, UID: h.Uid, GID: h.Gid}
	if e.Type == "" {
		return fmt.Errorf("%s has the unsupported type %q", h.Name, h.Typeflag)
	}
	if at := h.ModTime.Unix(); !h.ModTime.IsZero() && at != 0 {
		e.ModTime = time.Unix(at, 0).UTC().Format(time.RFC3339)
	}
	w.entries = append(w.entries, e)
	if h.Typeflag == tar.TypeReg {
		e.Size, w.left = h.Size, h.Size
		w.sum.Reset()
		if w.file, w.part = e, nil; e.Size == 0 && w.format == Estargz {
			e.Digest = sumOf(w.sum)
		}
	}
	if w.split != nil {
		return w.split.header(h.Name, e.Size)
	}
	return nil
}

func kind(flag byte) string {
	switch flag {
	case tar.TypeReg:
		return "reg"
	case tar.TypeLink:
		return "hardlink"
	case tar.TypeSymlink:
		return "symlink"
	case tar.TypeDir:
		return "dir"
	}
	return ""
}

func sumOf(h hash.Hash) string { return digest.NewDigest(digest.SHA256, h).String() }

// Write compresses a part of the tar.
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, err := w.writeSome(p)
		if err != nil {
			return 0, err
		}
		w.raw += int64(part)
		p = p[part:]
	}
	return n, nil
}

// writeSome writes the beginning of p, up to the end of a part of a file.
func (w *Writer) writeSome(p []byte) (int, error) {
	if w.left == 0 { // a header, or padding
		if w.split != nil {
			w.split.segment(p)
		}
		return len(p), w.compress(p)
	}
	if w.part == nil {
		if err := w.beginPart(); err != nil {
			return 0, err
		}
	}
	p = p[:min(int64(len(p)), w.part.ChunkOffset+w.room()-(w.file.Size-w.left))]
	_, _ = w.sum.Write(p)
	_, _ = w.partSum.Write(p)
	if w.split != nil {
		w.split.content(p)
	}
	if err := w.compress(p); err != nil {
		return 0, err
	}
	w.left -= int64(len(p))
	if w.left == 0 || w.file.Size-w.left == w.part.ChunkOffset+w.room() {
		return len(p), w.endPart()
	}
	return len(p), nil
}

// room returns the maximum length of a part.
func (w *Writer) room() int64 {
	if w.format == Estargz {
		return chunkSize
	}
	return w.file.Size
}

func (w *Writer) compress(p []byte) error {
	if !w.isOpen {
		w.frame.Reset(&w.out)
		w.isOpen = true
	}
	_, err := w.frame.Write(p)
	return err
}

// endFrame ends the frame, so that the next byte can be decompressed without what precedes it.
func (w *Writer) endFrame() error {
	if !w.isOpen {
		return nil
	}
	w.isOpen = false
	return w.frame.Close()
}

func (w *Writer) beginPart() error {
	if err := w.endFrame(); err != nil {
		return err
	}
	w.partSum.Reset()
	w.part = w.file
	if done := w.file.Size - w.left; done > 0 {
		w.part = &entry{Type: "chunk", Name: w.file.Name, ChunkOffset: done}
		w.entries = append(w.entries, w.part)
	}
	w.part.Offset = w.out.n
	return nil
}

func (w *Writer) endPart() error {
	if w.format == Estargz {
		if w.part.ChunkDigest = sumOf(w.partSum); w.file.Size-w.left-w.part.ChunkOffset == chunkSize {
			w.part.ChunkSize = chunkSize
		}
	}
	w.part = nil
	if w.left > 0 {
		return nil
	}
	w.file.Digest = sumOf(w.sum)
	if w.format == Estargz { // the next header is in the frame of the last part
		return nil
	}
	if err := w.endFrame(); err != nil {
		return err
	}
	w.file.EndOffset = w.out.n
	return w.split.end()
}

// Close writes the TOC and ends the layer. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.left > 0 {
		return fmt.Errorf("%d bytes of the last file are missing", w.left)
	}
	if err := w.endFrame(); err != nil {
		return err
	}
	if w.format == Zstd {
		return w.closeZstd()
	}
	return w.closeEstargz()
}

// Trailer returns what follows the tar when the layer is decompressed, after Close.
func (w *Writer) Trailer() []byte { return w.trailer }

// Annotations returns the annotations of the layer's descriptor, after Close.
func (w *Writer) Annotations() map[string]string { return w.notes }

// toc returns the TOC.
func (w *Writer) toc(tarSplit string) ([]byte, error) {
	return json.Marshal(struct {
		Version  int      `json:"version"`
		Entries  []*entry `json:"entries"`
		TarSplit string   `json:"tarSplitDigest,omitempty"`
	}{1, w.entries, tarSplit})
}
