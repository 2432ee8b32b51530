// Package erofslayer encodes layers as EROFS images, which containerd 2.3 and later mounts without
// unpacking them (media type application/vnd.erofs.layer.v1, with +zstd if the image is compressed as a
// whole), and reads such layers as tar entries.
//
// The image has the following parts, each aligned to a block:
//
//	superblock, inodes with their extended attributes and short directories
//	blocks of longer directories
//	contents of files, in the order of the tar
//
// All inodes have the extended form, which has the time of a file. Contents are not compressed within the
// image and not stored behind inodes, so that mkfs.erofs can merge the metadata of several layers, as for
// the layers that containerd's differ creates. Whiteouts and opaque directories have the form of
// overlayfs: a character device 0:0, and the attribute trusted.overlay.opaque.
//
// The on-disk format is https://erofs.docs.kernel.org/en/latest/core_ondisk.html. The image is a pure
// function of the entries of the tar, and the layer one of the image and the compression level. Package
// mount/erofs has the indexes of `slipway mount`, which are images of another kind: their contents are in
// other files.
package erofslayer

import (
	"encoding/binary"
	"fmt"
)

// Positions and values of the on-disk format.
const (
	blockSize   = 4096
	blockBits   = 12
	superOffset = 1024
	superSize   = 128
	slotSize    = 32 // an inode number is a position in units of slots
	inodeSize   = 64
	compactSize = 32
	direntSize  = 12
	superMagic  = 0xE0F5E1E2

	compatChecksum, compatMtime = 0x1, 0x2

	layoutPlain, layoutInline = 0, 2

	// maxInline is the maximum length of the end of a directory, or of the target of a link, that is
	// stored behind its inode.
	maxInline = 2048
)

// File types in modes.
const (
	modeType   = 0o170000
	modeFIFO   = 0o010000
	modeChar   = 0o020000
	modeDir    = 0o040000
	modeBlock  = 0o060000
	modeFile   = 0o100000
	modeLink   = 0o120000
	modeSocket = 0o140000
)

// A Refusal is the error for a file that an image cannot represent, or for an image that cannot be read.
type Refusal struct{ reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

var le = binary.LittleEndian //nolint:gochecknoglobals // never changed

// kindOf returns the type of a file in a directory, and 0 for an unknown one.
func kindOf(mode uint16) byte {
	switch mode & modeType {
	case modeFile:
		return 1
	case modeDir:
		return 2
	case modeChar:
		return 3
	case modeBlock:
		return 4
	case modeFIFO:
		return 5
	case modeSocket:
		return 6
	case modeLink:
		return 7
	}
	return 0
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }
