// Package unsquash reads images of the file system squashfs 4.0 and writes their files as a
// tar. Images are untrusted: every length in them is bounded before anything is allocated,
// and a malformed image is an error, never a panic. In memory the package only holds the
// names of the current path and of hard links. Package squashfs writes images.
//
// The format is defined by the kernel's fs/squashfs/squashfs_fs.h.
package unsquash

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"fmt"
	"io"
)

// Limits bound what an image may hold. There is no default: zero allows nothing.
type Limits struct {
	// Bytes is the maximum total size of all files, and of names and attributes.
	Bytes int64
	// Entries is the maximum number of names.
	Entries int
	// Depth is the maximum number of directories inside each other.
	Depth int
	// LinkBytes is the maximum memory in bytes for the names of files with several names.
	LinkBytes int64
}

// Summary describes the output.
type Summary struct {
	// Entries and Bytes are the number of names and the number of bytes in files.
	Entries int
	Bytes   int64
	// LeftOut is the number of device nodes and sockets, which are not written.
	LeftOut int
}

// A Refusal is returned for an image that is malformed, exceeds a limit, or holds something
// that a layer cannot hold.
type Refusal struct {
	// Why is the message for the user.
	Why string
}

// Error returns the message for the user.
func (r *Refusal) Error() string { return r.Why }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Tar writes the files of the image in r, which is size bytes long, as a tar: a directory
// before its content, and the names of one directory in their order. Owners, modes, times,
// hard links, file capabilities and user attributes are kept. The root directory itself is
// not written. The same image produces the same bytes. An error is a *Refusal, or one of r,
// out or ctx.
func Tar(ctx context.Context, out io.Writer, r io.ReaderAt, size int64, l Limits) (Summary, error) {
	img, err := open(r, size)
	if err != nil {
		return Summary{}, err
	}
	to := &sink{Writer: out}
	w := &walker{ctx: ctx, image: img, to: to, out: tar.NewWriter(to), limits: l, links: map[uint64]string{}}
	root, err := img.inode(img.super.RootInode)
	if err != nil {
		return Summary{}, err
	}
	if root.kind != kindDir {
		return Summary{}, refuse("the root of the file system is no directory")
	}
	if err := w.directory(root, "", 0); err != nil {
		return w.summary, err
	}
	return w.summary, w.out.Close()
}

// superblock is the start of an image.
type superblock struct {
	Magic, Inodes, Time, BlockSize, Fragments                            uint32
	Compression, BlockLog, Flags, IDs, Major, Minor                      uint16
	RootInode, Used, IDTable, AttrTable, InodeTable, DirTable, FragTable uint64
	ExportTable                                                          uint64
}

const (
	magic = 0x73717368
	// none is the value of a missing index, and noTable that of a missing table.
	none    = 0xffffffff
	noTable = 1<<64 - 1
)

// An image is an open image.
type image struct {
	file   io.ReaderAt
	size   int64
	super  superblock
	expand expander
	blocks metadataCache
	// fragment is the last expanded fragment block, and fragmentOf is its index.
	fragment   []byte
	fragmentOf uint32
	packed     []byte // scratch
}

// open reads the superblock.
func open(r io.ReaderAt, size int64) (*image, error) {
	img := &image{file: r, size: size, fragmentOf: none}
	if err := binary.Read(io.NewSectionReader(r, 0, size), binary.LittleEndian, &img.super); err != nil {
		return nil, unlessEnd(err, "the superblock is incomplete")
	}
	s := &img.super
	switch {
	case s.Magic != magic:
		return nil, refuse("it is not squashfs")
	case s.Major != 4 || s.Minor != 0:
		return nil, refuse("it is squashfs %d.%d; 4.0 can be read", s.Major, s.Minor)
	case s.BlockLog < 12 || s.BlockLog > 20 || s.BlockSize != 1<<s.BlockLog:
		return nil, refuse("its block size is wrong")
	}
	var err error
	img.expand, err = newExpander(s.Compression)
	img.packed = make([]byte, s.BlockSize)
	return img, err
}

// bytes reads length bytes, which the caller has bounded, into a buffer that the next call
// reuses.
func (img *image) bytes(at uint64, length int) ([]byte, error) {
	if at > uint64(img.size) || int64(length) > img.size-int64(at) {
		return nil, refuse("a part of it extends beyond its end")
	}
	if cap(img.packed) < length {
		img.packed = make([]byte, length)
	}
	p := img.packed[:length]
	if _, err := img.file.ReadAt(p, int64(at)); err != nil {
		return nil, unlessEnd(err, "it ends in the middle")
	}
	return p, nil
}

// unlessEnd returns a Refusal for an early end, and other errors unchanged.
func unlessEnd(err error, why string) error {
	if isEnd(err) {
		return refuse("%s", why)
	}
	return err
}
