// Package squashfs writes images of the file system squashfs 4.0, which Linux can mount. It
// accepts entries in any order and streams the content of files. Names and inodes are held
// in memory, outside the heap and within a budget. Blocks are compressed on several
// processors and stored in the order of arrival. The same entries produce the same bytes on
// every machine and with any number of workers. The package does not read squashfs.
//
// The format is defined by the kernel's fs/squashfs/squashfs_fs.h. Where that is ambiguous,
// the package does what mksquashfs, tar2sqfs and the kernel agree on.
package squashfs

import (
	"archive/tar"
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/arena"
)

const (
	// blockSize is the size of data blocks in bytes, and blockLog its base-2 logarithm. It
	// is the default of mksquashfs.
	blockLog  = 17
	blockSize = 1 << blockLog
	// none is the value of a missing index: of a fragment or of attributes.
	none = 0xffffffff
)

// Options are the options of an image.
type Options struct {
	Compression Compression
	// Workers is the number of blocks that are compressed concurrently; 0 is one.
	Workers int
	// Memory limits the memory for names, inodes, attributes and block lists; nil means no
	// limit.
	Memory *arena.Budget
}

// File is the output: it is written at any position and truncated or extended at the end.
// *os.File implements it.
type File interface {
	io.WriterAt
	Truncate(size int64) error
}

// A Refusal is returned for entries that squashfs cannot represent, or that exceed a limit.
type Refusal struct {
	// Why is the message for the user.
	Why string
}

// Error returns the message for the user.
func (r *Refusal) Error() string { return r.Why }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Write writes an image of the entries that fill adds. It returns its length in bytes, a
// multiple of 4096. After an error, which is a *Refusal or an error of fill, the file or
// ctx, the file must be discarded. No goroutine of Write outlives it.
func Write(ctx context.Context, f File, o Options, fill func(*Writer) error) (int64, error) {
	o.Compression = o.Compression.withDefaults()
	p, err := newPacker(o.Compression, max(o.Workers, 1))
	if err != nil {
		return 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	memory := arena.New(o.Memory)
	defer memory.Close()
	w := newWriter(ctx, image{file: f, pack: p}, memory, o.Memory)
	if err := w.begin(o.Compression); err != nil {
		return 0, err
	}
	w.lane = newLane(ctx, group, w, max(o.Workers, 1))
	if err = w.plant(); err == nil {
		err = fill(w)
	}
	if err == nil {
		err = w.flushFragment()
	}
	w.lane.close()
	if failed := group.Wait(); failed != nil { // the reason why fill was stopped
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return w.finish()
}

// Writer receives the entries of an image. It must be used by one goroutine only.
type Writer struct {
	ctx context.Context //nolint:containedctx // for the time of one image
	image
	memory *arena.Arena
	budget *arena.Budget

	tree
	ids        map[uint32]uint16
	owners     []uint32
	attributes attributes

	lane *lane
	// fragment is the current block of file ends, or nil.
	fragment  *block
	fragments uint32
	tails     *sums
	scratch   []byte
}

func newWriter(ctx context.Context, to image, memory *arena.Arena, budget *arena.Budget) *Writer {
	return &Writer{
		ctx: ctx, image: to, memory: memory, budget: budget, tree: newTree(memory),
		ids: map[uint32]uint16{0: 0}, owners: []uint32{0}, attributes: newAttributes(memory), tails: newSums(memory),
	}
}

// full converts an exceeded budget to a refusal, and returns other errors unchanged.
func (w *Writer) full(err error) error {
	if arena.IsFull(err) && w.budget != nil {
		return refuse("the names, owners and attributes of all files, and the lists of their blocks, take more than %d MiB of memory", w.budget.Limit()>>20)
	}
	return err
}

// Add adds an entry at its path. Parent directories may be added later, or not at all. A
// second entry for a path replaces the first; for a directory it replaces the attributes
// only. The content is read up to the header's size. Extended attributes are PAX records as
// GNU tar writes them, "SCHILY.xattr.user.x".
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
	var f *file
	if n.kind == regular {
		if n.of, f, err = w.files.Add(); err != nil {
			return w.full(err)
		}
	}
	id, err := w.add(n)
	if err != nil {
		return err
	}
	if err := w.place(parent, name, id); err != nil || f == nil {
		return err
	}
	return w.content(f, h.Size, content)
}
