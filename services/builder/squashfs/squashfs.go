// Package squashfs writes images of the file system squashfs 4.0, which the kernel
// mounts. It takes entries in any order, keeps names and inodes in memory, and
// streams the content of files: blocks are compressed on several processors and
// stored in the order in which they came. The same entries give the same bytes,
// on every machine and with any number of workers. It reads no squashfs.
//
// The truth is the kernel's fs/squashfs/squashfs_fs.h; mksquashfs, tar2sqfs and the
// kernel agree on what that leaves open.
package squashfs

import (
	"archive/tar"
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

const (
	// blockSize is how much of a file is compressed at a time, in bytes; blockLog is
	// its logarithm. It is what mksquashfs uses unless told otherwise.
	blockLog  = 17
	blockSize = 1 << blockLog
	// none stands where there is no index: of a fragment, of attributes.
	none = 0xffffffff
)

// Options say how an image is written.
type Options struct {
	Compression Compression
	// Workers is how many blocks are compressed at a time; 0 is one.
	Workers int
	// Tables is how much of names, inodes, attributes and lists of blocks may be in
	// memory, in bytes; 0 is no limit.
	Tables int64
}

// File is what an image is written to: it is written at any place, and cut or
// lengthened in the end. An *os.File is one.
type File interface {
	io.WriterAt
	Truncate(size int64) error
}

// Refusal is an entry, or a number of them, that squashfs cannot hold or that is
// beyond a limit.
type Refusal struct {
	// Why is for the user.
	Why string
}

// Error is the text for the user.
func (r *Refusal) Error() string { return r.Why }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Write makes an image of the entries that fill adds, and answers its length in
// bytes, a multiple of 4096. The file is of no use after an error: a *Refusal, or
// that of fill, of the file or of ctx. Nothing of it runs on when it returns.
func Write(ctx context.Context, f File, o Options, fill func(*Writer) error) (int64, error) {
	o.Compression = o.Compression.withDefaults()
	p, err := newPacker(o.Compression, max(o.Workers, 1))
	if err != nil {
		return 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	w := &Writer{
		ctx: ctx, image: image{file: f, pack: p}, budget: budget{most: o.Tables},
		root: newFolder(), ids: map[uint32]uint16{0: 0}, owners: []uint32{0}, attributes: attributes{sets: map[string]uint32{}}, tails: map[sum]place{},
	}
	if err := w.begin(o.Compression); err != nil {
		return 0, err
	}
	w.lane = newLane(ctx, group, &w.image, max(o.Workers, 1))
	if err = fill(w); err == nil {
		err = w.flushFragment()
	}
	w.lane.close()
	if failed := group.Wait(); failed != nil { // it is why fill was stopped
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return w.finish()
}

// Writer takes the entries of an image. It is for one goroutine.
type Writer struct {
	ctx context.Context //nolint:containedctx // for the time of one image
	image
	budget
	root       *inode
	ids        map[uint32]uint16
	owners     []uint32
	attributes attributes

	lane *lane
	// fragment is the block of ends of files that is being filled; nil is none.
	fragment  *block
	fragments uint32
	tails     map[sum]place
	scratch   []byte
}

// budget counts what is in memory.
type budget struct{ most, used int64 }

// inodeCost is what an entry takes in memory beside its texts, about.
const inodeCost = 320

func (b *budget) charge(bytes int) error {
	if b.used += int64(bytes); b.most > 0 && b.used > b.most {
		return refuse("the names, owners and attributes of all files, and the lists of their blocks, take more than %d MiB", b.most>>20)
	}
	return nil
}

// Add puts an entry at its path; directories on the way may come later, or not at
// all. A second entry of a path replaces the first, and describes anew what is a
// directory. The content is read to its length. Extended attributes are PAX records
// as GNU tar writes them, "SCHILY.xattr.user.x".
func (w *Writer) Add(h *tar.Header, content io.Reader) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	parent, name, err := w.locate(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeLink:
		return w.link(parent, name, h)
	case tar.TypeDir:
		return w.directory(parent, name, h)
	}
	n, err := w.inode(h)
	if err != nil {
		return err
	}
	if err := w.place(parent, name, n); err != nil {
		return err
	}
	if n.kind == regular {
		return w.content(n.file, h.Size, content)
	}
	return nil
}
