package unsquash

import (
	"archive/tar"
	"context"
	"io"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
)

// A sink records write errors, so that they can be distinguished from encoding errors.
type sink struct {
	io.Writer
	err error
}

// Write writes to the underlying writer.
func (s *sink) Write(p []byte) (n int, err error) {
	n, err = s.Writer.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// linkBytes is the memory in bytes for a file with several names, without its name.
const linkBytes = 64

// A walker writes the tree of an image as a tar.
type walker struct {
	*image
	ctx     context.Context //nolint:containedctx // for the time of one image
	to      *sink
	out     *tar.Writer
	limits  Limits
	summary Summary
	// links maps the references of files with several names to their first name.
	links map[uint64]string
}

// directory writes the content of a directory, whose path is "" or ends with a slash.
func (w *walker) directory(dir inode, path string, depth int) error {
	if depth > w.limits.Depth {
		return refuse("%q has more than %d directories inside each other", fault.Clip(path, 100), w.limits.Depth)
	}
	list, last := w.listing(dir), ""
	for {
		e, ok, err := list.next()
		if err != nil || !ok {
			return err
		}
		if e.name <= last { // the kernel requires this order, because its lookups depend on it
			return refuse("the names in %q are not in order", fault.Clip(path, 100))
		}
		last = e.name
		if err := w.entry(e, path, depth); err != nil {
			return err
		}
	}
}

func (w *walker) entry(e entry, dir string, depth int) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if e.name == "." || e.name == ".." || strings.ContainsAny(e.name, "/\x00") {
		return refuse("the name %q is not possible", fault.Clip(e.name, 100))
	}
	if strings.HasPrefix(e.name, ".wh.") {
		return refuse("the name %q would delete a file of a lower layer", fault.Clip(dir+e.name, 100))
	}
	n, err := w.inode(e.inode)
	if err != nil {
		return err
	}
	path := dir + e.name
	w.summary.Entries++
	if w.limits.Bytes -= int64(len(path)); w.summary.Entries > w.limits.Entries || w.limits.Bytes < 0 {
		return w.tooLarge()
	}
	if first, ok := w.links[e.inode]; ok {
		return w.header(&tar.Header{Typeflag: tar.TypeLink, Name: path, Linkname: first, Mode: int64(n.mode & 0o7777)})
	}
	if n.links > 1 && n.kind != kindDir {
		if w.limits.LinkBytes -= linkBytes + int64(len(path)); w.limits.LinkBytes < 0 {
			return refuse("the names of its hard links take too much memory")
		}
		w.links[e.inode] = path
	}
	return w.node(n, path, depth)
}

func (w *walker) tooLarge() error {
	return refuse("it is too large: it has more than %d files, or more bytes than fit", w.limits.Entries)
}

// node writes an inode under a path.
func (w *walker) node(n inode, path string, depth int) error {
	h := &tar.Header{
		Name: path, Mode: int64(n.mode & 0o7777), Uid: int(n.uid), Gid: int(n.gid), ModTime: time.Unix(int64(n.mtime), 0), Format: tar.FormatPAX,
	}
	var err error
	if h.PAXRecords, err = w.attributes(n); err != nil {
		return err
	}
	switch n.kind {
	case kindDir:
		h.Typeflag, h.Name = tar.TypeDir, path+"/"
		if err := w.header(h); err != nil {
			return err
		}
		return w.directory(n, h.Name, depth+1)
	case kindFile:
		h.Typeflag, h.Size = tar.TypeReg, int64(n.size)
		if h.Size < 0 || h.Size > w.limits.Bytes {
			return w.tooLarge()
		}
		w.limits.Bytes -= h.Size
		w.summary.Bytes += h.Size
		if err := w.header(h); err != nil {
			return err
		}
		return w.content(n)
	case kindLink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.target
		return w.header(h)
	case kindFifo:
		h.Typeflag = tar.TypeFifo
		return w.header(h)
	default:
		w.summary.LeftOut++
		return nil
	}
}

func (w *walker) header(h *tar.Header) error {
	err := w.out.WriteHeader(h)
	if err != nil && w.to.err == nil { // such as a NUL in the name of an attribute
		return refuse("%q cannot be part of a layer", fault.Clip(h.Name, 100))
	}
	return err
}

// content writes the content of a file.
func (w *walker) content(n inode) error {
	left, at, size := n.size, n.first, uint64(w.super.BlockSize)
	for left > 0 && (left >= size || n.fragment == none) {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		var length uint32
		if err := n.sizes.read(&length); err != nil {
			return err
		}
		want := int(min(left, size))
		block, err := w.data(at, length, want)
		if err != nil {
			return err
		}
		if _, err := w.out.Write(block); err != nil {
			return err
		}
		left, at = left-uint64(want), at+uint64(length&^plainData)
	}
	if left == 0 {
		return nil
	}
	tail, err := w.fragmentBlock(n.fragment)
	if err != nil {
		return err
	}
	if uint64(n.offset)+left > uint64(len(tail)) {
		return refuse("the end of a file is beyond the end of its block")
	}
	_, err = w.out.Write(tail[n.offset:][:left])
	return err
}

// plainData is set in the length of a data block that is not compressed.
const plainData = 1 << 24

// data returns a block of a file, which has want bytes; a negative want accepts any number.
// A block of length 0 is not stored: it is all zeros.
func (img *image) data(at uint64, length uint32, want int) ([]byte, error) {
	size := int(length &^ plainData)
	switch {
	case size == 0 && want >= 0:
		return make([]byte, want), nil
	case size == 0:
		return nil, refuse("the end of a file is empty")
	case size > int(img.super.BlockSize):
		return nil, refuse("a block has an invalid length")
	}
	block, err := img.bytes(at, size)
	if err == nil && length&plainData == 0 {
		block, err = img.expand(block, int(img.super.BlockSize))
	}
	if err == nil && len(block) != want && want >= 0 {
		err = refuse("a block has an invalid length")
	}
	return block, err
}

// fragmentBlock returns a block of file ends.
func (img *image) fragmentBlock(index uint32) ([]byte, error) {
	if index == img.fragmentOf {
		return img.fragment, nil
	}
	if index >= img.super.Fragments {
		return nil, refuse("the end of a file is missing")
	}
	c, err := img.indexed(img.super.FragTable, int(index), 16)
	if err != nil {
		return nil, err
	}
	var f struct {
		At           uint64
		Size, Unused uint32
	}
	if err := c.read(&f); err != nil {
		return nil, err
	}
	const any = -1
	block, err := img.data(f.At, f.Size, any)
	if err != nil {
		return nil, err
	}
	img.fragment, img.fragmentOf = append(img.fragment[:0], block...), index
	return img.fragment, nil
}
