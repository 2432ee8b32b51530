// Package squashfs writes images of the file system squashfs 4.0, which Linux can mount.
//
// An image is made of parts: a part has the compressed contents of one layer (WritePart). It is made
// once for all images with that layer, since stored blocks do not depend on their position. An image
// (Write) consists of the blocks of its parts, which are not copied, and of tables of names and inodes.
// Entries are accepted in any order. Names and inodes are held in memory, outside the heap and within
// a budget. The same entries produce the same bytes on every machine. The package does not read
// squashfs.
//
// The format is defined by the kernel's fs/squashfs/squashfs_fs.h. Where that is ambiguous,
// the package does what mksquashfs, tar2sqfs and the kernel agree on.
package squashfs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/pieces"
)

const (
	// blockSize is the size of data blocks in bytes, and blockLog its base-2 logarithm. It
	// is the default of mksquashfs.
	blockLog  = 17
	blockSize = 1 << blockLog
	// none is the value of a missing index: of a fragment or of attributes.
	none = 0xffffffff
)

// Scratch is a temporary file. *os.File implements it.
type Scratch interface {
	io.WriterAt
	io.ReaderAt
}

// A Refusal is returned for entries that squashfs cannot represent, or that exceed a limit.
type Refusal struct {
	// Why is the message for the user.
	Why string
}

// Error returns the message for the user.
func (r *Refusal) Error() string { return r.Why }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// full converts an exceeded budget to a refusal, and returns other errors unchanged.
func full(err error, budget *arena.Budget) error {
	if arena.IsFull(err) && budget != nil {
		return tooMany(budget)
	}
	return err
}

func tooMany(budget *arena.Budget) error {
	return refuse("the names, owners and attributes of all files, and the lists of their blocks, take more than %d MiB of memory", budget.Limit()>>20)
}

// Write returns an image of the entries that fill adds, whose contents are in the parts. The image
// reads the parts and the file scratch, which has to be empty and gets the tables; neither may change
// as long as the image is used. Its length is a multiple of 4096. The argument budget limits the memory
// for names, inodes, attributes and block lists; nil means no limit. The error is a *Refusal or an
// error of fill, a part, scratch or ctx.
func Write(ctx context.Context, scratch Scratch, c *Compressor, budget *arena.Budget, parts []*Part, fill func(*Writer) error) (*pieces.File, error) {
	memory := arena.New(budget)
	defer memory.Close()
	w := newWriter(ctx, image{file: scratch, pack: c.pack}, memory, budget)
	id, _ := c.id()
	for _, p := range parts {
		if p.compressor != [2]byte{byte(id), byte(c.Level)} {
			return nil, errors.New("the part of a layer has another compression")
		}
		w.parts = append(w.parts, newPartReader(p))
	}
	err := w.plant()
	if err == nil {
		err = fill(w)
	}
	if err != nil {
		return nil, err
	}
	return w.finish(c)
}

// Writer receives the entries of an image. It must be used by one goroutine only.
type Writer struct {
	ctx context.Context //nolint:containedctx // for the time of one image
	image
	memory *arena.Arena
	budget *arena.Budget
	parts  []*partReader

	tree
	ids        map[uint32]uint16
	owners     []uint32
	attributes attributes
	marker     marker
	// same finds the numbers of placed files by their contents.
	same *sums
	// words holds the stored lengths of the blocks of all files, and fragments the blocks of file ends.
	words     *arena.Table[uint32]
	fragments *arena.Table[fragment]
	bytes     int64
}

func newWriter(ctx context.Context, to image, memory *arena.Arena, budget *arena.Budget) *Writer {
	return &Writer{
		ctx: ctx, image: to, memory: memory, budget: budget, tree: newTree(memory),
		ids: map[uint32]uint16{0: 0}, owners: []uint32{0}, attributes: newAttributes(memory), marker: newMarker(), same: newSums(memory),
		words: arena.NewTable[uint32](memory), fragments: arena.NewTable[fragment](memory),
	}
}

// full converts an exceeded budget to a refusal, and returns other errors unchanged.
func (w *Writer) full(err error) error { return full(err, w.budget) }

// Add adds an entry at its path. Parent directories may be added later, or not at all. A
// second entry for a path replaces the first; for a directory it replaces the attributes
// only. The content of a regular file is that of the file with this number in the listing of
// the part with the index part. The header's size is ignored. Extended attributes are PAX records as
// GNU tar writes them, "SCHILY.xattr.user.x".
func (w *Writer) Add(h *tar.Header, part int, number uint32) error {
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
	if n.kind == regular {
		if n.of, err = w.put(part, number); err != nil {
			return err
		}
		w.bytes += int64(w.files.At(n.of).size)
	}
	id, err := w.add(n)
	if err != nil {
		return err
	}
	return w.place(parent, name, id)
}

// Bytes returns the length of all regular files that were added.
func (w *Writer) Bytes() int64 { return w.bytes }
