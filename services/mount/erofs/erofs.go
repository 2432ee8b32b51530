// Package erofs encodes and reads the indexes of packages and environments that are mounted.
//
// An index is an EROFS image without the contents of files, followed by the digests of the chunks
// that have the contents:
//
//	image    superblock, device table, inodes, directories, contents of embedded files
//	chunks   for each device: its size in bytes (8 bytes), and the SHA-256 of each chunk
//	trailer  size of the image (8 bytes), number of devices (8 bytes), magic (8 bytes)
//
// A device of the image is the blob of one package (package pack). The tag of a device is the ID
// of the blob, so that the digest of an index determines all contents. The Linux kernel mounts the
// image with one file for each device, and package fuse serves the same bytes: the number of an
// inode is its position, so that nothing has to be decoded when an environment is mounted.
//
// The on-disk format is https://erofs.docs.kernel.org/en/latest/core_ondisk.html. All inodes have
// the extended form, because only this form has a time of its own, which compiled Python is checked
// against. Every file is one extent of a device.
//
// Equal trees and devices produce equal bytes.
package erofs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

const (
	// BlockSize is the alignment in bytes of each file within its device.
	BlockSize = 4096
	// ChunkSize is the size in bytes of the units that a device is verified, compressed and
	// fetched in. The last chunk of a device is shorter.
	ChunkSize = 256 << 10
	// Embedded is the device of files whose contents are in the index.
	Embedded = -1
)

// Positions and values of the on-disk format.
const (
	superOffset = 1024
	superSize   = 128
	deviceTable = superOffset + superSize
	deviceSize  = 128
	slotSize    = 32 // an inode number is a position in units of slots
	inodeSize   = 64
	extentSize  = 8
	direntSize  = 12
	magic       = 0xE0F5E1E2

	featureChunked, featureDevices = 0x4, 0x8
	chunkIndexes                   = 0x20

	layoutPlain, layoutInline, layoutChunk = 0, 2, 4

	// maxInline is the maximum length of the end of a directory, or of the target of a link,
	// that is stored behind its inode.
	maxInline = 2048

	trailerSize  = 24
	trailerMagic = "SLIPIDX1"
)

// File types in directories and in modes.
const (
	KindFile, KindDir, KindLink = 1, 2, 7

	ModeType, ModeFile, ModeDir, ModeLink = 0o170000, 0o100000, 0o040000, 0o120000
)

// A Refusal is the error for a tree that no index can represent.
type Refusal struct{ reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

var le = binary.LittleEndian //nolint:gochecknoglobals // never changed

// A Device is the blob of a package, as an index refers to it.
type Device struct {
	// ID is BlobID of Size and Chunks. It does not depend on the compression of the blob.
	ID [32]byte
	// Size is the length in bytes, which is a multiple of BlockSize.
	Size uint64
	// Chunks are the SHA-256 digests of all chunks.
	Chunks [][32]byte
}

// NewDevice returns the device of a blob with these chunks.
func NewDevice(size uint64, chunks [][32]byte) Device {
	return Device{ID: BlobID(size, chunks), Size: size, Chunks: chunks}
}

// Name returns the ID in hexadecimal digits.
func (d Device) Name() string { return hex.EncodeToString(d.ID[:]) }

// BlobID returns the ID of a blob: the SHA-256 of its size and the digests of its chunks.
func BlobID(size uint64, chunks [][32]byte) [32]byte {
	h := sha256.New()
	h.Write(le.AppendUint64(nil, size))
	for i := range chunks {
		h.Write(chunks[i][:])
	}
	return [32]byte(h.Sum(nil))
}

// chunksOf returns the number of chunks of a device of this size.
func chunksOf(size uint64) uint64 {
	n := size / ChunkSize
	if size%ChunkSize != 0 {
		n++
	}
	return n
}

func kindOf(mode uint16) byte {
	switch mode & ModeType {
	case ModeFile:
		return KindFile
	case ModeDir:
		return KindDir
	case ModeLink:
		return KindLink
	}
	return 0
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }
