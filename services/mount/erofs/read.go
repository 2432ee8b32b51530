package erofs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sort"
)

// errBroken is returned for an index that this package has not encoded.
var errBroken = errors.New("the index is malformed")

// An Index is a decoded index, which uses the bytes that it was opened with. Its methods check all
// positions, so that malformed bytes never make them panic; Check verifies the whole tree. It is
// safe for concurrent use.
type Index struct {
	image   []byte
	devices []Device
}

// An Inode has the properties of a file, directory or link.
type Inode struct {
	// Mode is ModeFile, ModeDir or ModeLink, with the permissions.
	Mode uint16
	// Size is in bytes.
	Size uint64
	// Mtime is the time of the last change in seconds since 1970.
	Mtime int64
	// Nlink is the number of names.
	Nlink uint32

	layout uint16
	union  uint32
}

// Open decodes an index. It verifies the superblock, and that the chunks are those of the devices;
// it does not read the tree, which has tens of thousands of inodes.
func Open(b []byte) (*Index, error) {
	if len(b) < BlockSize+trailerSize || string(b[len(b)-8:]) != trailerMagic {
		return nil, errBroken
	}
	trailer := b[len(b)-trailerSize:]
	size, count := le.Uint64(trailer), le.Uint64(trailer[8:])
	if size < BlockSize || size%BlockSize != 0 || size > uint64(len(b)-trailerSize) || count > maxDevices || deviceTable+deviceSize*count > size {
		return nil, errBroken
	}
	x := &Index{image: b[:size:size], devices: make([]Device, 0, count)}
	if err := x.checkSuper(count); err != nil {
		return nil, err
	}
	rest := b[size : len(b)-trailerSize]
	for i := range count {
		var d Device
		var err error
		if d, rest, err = readDevice(rest); err != nil {
			return nil, err
		}
		slot := x.image[deviceTable+deviceSize*i:]
		if string(slot[:64]) != d.Name() || uint64(le.Uint32(slot[64:]))*BlockSize != d.Size {
			return nil, fmt.Errorf("the chunks of device %d are not those of its ID", i)
		}
		x.devices = append(x.devices, d)
	}
	if len(rest) != 0 {
		return nil, errBroken
	}
	return x, nil
}

func (x *Index) checkSuper(devices uint64) error {
	s := x.image[superOffset:]
	if le.Uint32(s) != magic || s[12] != 12 || s[13] != 0 || uint64(le.Uint16(s[86:])) != devices || le.Uint16(s[88:]) != deviceTable/deviceSize ||
		le.Uint32(s[40:]) != 0 || le.Uint32(s[80:]) != featureChunked|featureDevices {
		return errBroken
	}
	return nil
}

// readDevice reads the size and the chunks of a device.
func readDevice(b []byte) (Device, []byte, error) {
	if len(b) < 8 {
		return Device{}, nil, errBroken
	}
	size := le.Uint64(b)
	b = b[8:]
	n := chunksOf(size)
	if size%BlockSize != 0 || size/BlockSize > math.MaxUint32 || n > uint64(len(b))/32 {
		return Device{}, nil, errBroken
	}
	chunks := make([][32]byte, n)
	for i := range chunks {
		chunks[i] = [32]byte(b[32*i:])
	}
	return NewDevice(size, chunks), b[32*n:], nil
}

// Image returns the EROFS image. The caller must not change it.
func (x *Index) Image() []byte { return x.image }

// Devices returns the devices. The caller must not change them.
func (x *Index) Devices() []Device { return x.devices }

// Root returns the number of the root directory's inode.
func (x *Index) Root() uint64 { return uint64(le.Uint16(x.image[superOffset+14:])) }

// Inodes returns the number of files, directories and links.
func (x *Index) Inodes() uint64 { return le.Uint64(x.image[superOffset+16:]) }

// at returns the bytes from the inode nid on, which are at least as long as an inode.
func (x *Index) at(nid uint64) ([]byte, bool) {
	if nid >= uint64(len(x.image))/slotSize {
		return nil, false
	}
	p := x.image[nid*slotSize:]
	return p, len(p) >= inodeSize && nid*slotSize >= deviceTable
}

// Inode returns the properties of an inode. The result is false if there is no inode.
func (x *Index) Inode(nid uint64) (Inode, bool) {
	p, ok := x.at(nid)
	if !ok {
		return Inode{}, false
	}
	format := le.Uint16(p)
	i := Inode{
		Mode: le.Uint16(p[4:]), Size: le.Uint64(p[8:]), Mtime: int64(le.Uint64(p[32:])), Nlink: le.Uint32(p[44:]), layout: format >> 1, union: le.Uint32(p[16:]),
	}
	return i, format&1 == 1 && le.Uint16(p[2:]) == 0 && kindOf(i.Mode) != 0 && i.Mode&^(ModeType|0o777) == 0 && i.Size <= math.MaxInt64
}

// Extent returns where the contents of a file begin: the device, and the position in it in bytes. If
// the device is Embedded, Data returns the contents. The result is false if nid is not a file, or if
// its extent is outside of the device.
func (x *Index) Extent(nid uint64) (device int, at int64, ok bool) {
	i, ok := x.Inode(nid)
	if !ok || i.Mode&ModeType != ModeFile {
		return 0, 0, false
	}
	if i.layout == layoutPlain {
		return Embedded, int64(i.union) * BlockSize, true
	}
	p, _ := x.at(nid)
	if i.layout != layoutChunk || len(p) < inodeSize+extentSize || i.union&^0x1f != chunkIndexes || i.Size == 0 || 1<<(i.union&0x1f) < (i.Size-1)/BlockSize+1 {
		return 0, 0, false
	}
	device = int(le.Uint16(p[inodeSize+2:])) - 1
	first := uint64(le.Uint32(p[inodeSize+4:]))
	if device < 0 || device >= len(x.devices) || first*BlockSize > x.devices[device].Size || i.Size > x.devices[device].Size-first*BlockSize {
		return 0, 0, false
	}
	return device, int64(first * BlockSize), true
}

// Data returns the contents of an Embedded file, the target of a link, or a directory without
// blocks. The result is false if they are not in the image.
func (x *Index) Data(nid uint64) ([]byte, bool) {
	i, ok := x.Inode(nid)
	if !ok {
		return nil, false
	}
	return x.data(nid, i)
}

func (x *Index) data(nid uint64, i Inode) ([]byte, bool) {
	var from uint64
	switch i.layout {
	case layoutInline:
		from = nid*slotSize + inodeSize
		if i.Size > BlockSize {
			return nil, false
		}
	case layoutPlain:
		from = uint64(i.union) * BlockSize
	default:
		return nil, false
	}
	if from > uint64(len(x.image)) || i.Size > uint64(len(x.image))-from {
		return nil, false
	}
	return x.image[from : from+i.Size : from+i.Size], true
}

// Target returns the target of a link. The result is false if nid is not a link.
func (x *Index) Target(nid uint64) (string, bool) {
	i, ok := x.Inode(nid)
	if !ok || i.Mode&ModeType != ModeLink || i.Size > maxTarget {
		return "", false
	}
	b, ok := x.data(nid, i)
	return string(b), ok && len(b) > 0
}

// entry returns a file or link as an entry of a tree.
func (x *Index) entry(nid uint64, i Inode) (Entry, error) {
	e := Entry{Mode: i.Mode, Mtime: i.Mtime}
	if i.Mode&ModeType == ModeLink {
		target, ok := x.Target(nid)
		e.Target = target
		if !ok {
			return e, errBroken
		}
		if e.check() != "" {
			return e, errBroken
		}
		return e, nil
	}
	e.Size = i.Size
	if e.Size == 0 {
		return e, nil
	}
	device, at, ok := x.Extent(nid)
	if !ok {
		return e, errBroken
	}
	e.Device, e.Block = device, uint32(at/BlockSize)
	if device == Embedded {
		if e.Data, ok = x.data(nid, i); !ok {
			return e, errBroken
		}
	}
	return e, nil
}

// block returns a block of a directory, or nil behind the last one. The block has a valid number of
// entries.
func (x *Index) block(nid uint64, i Inode, n uint64) (block []byte, entries int, ok bool) {
	if n >= roundUp(i.Size, BlockSize)/BlockSize {
		return nil, 0, true
	}
	length := min(i.Size-n*BlockSize, BlockSize)
	var from uint64
	if i.layout == layoutInline && (n+1)*BlockSize >= i.Size {
		from = nid*slotSize + inodeSize
	} else {
		from = (uint64(i.union) + n) * BlockSize
	}
	if from > uint64(len(x.image)) || length > uint64(len(x.image))-from || length < direntSize {
		return nil, 0, false
	}
	block = x.image[from : from+length]
	entries = int(le.Uint16(block[8:])) / direntSize
	return block, entries, entries > 0 && uint64(entries)*direntSize <= length
}

// nameAt returns a name of a block with a valid number of entries, or "" if it is malformed.
func nameAt(block []byte, i, entries int) string {
	from, to := int(le.Uint16(block[i*direntSize+8:])), len(block)
	if i+1 < entries {
		to = int(le.Uint16(block[(i+1)*direntSize+8:]))
	}
	if from < entries*direntSize || from > to || to > len(block) {
		return ""
	}
	return string(bytes.TrimRight(block[from:to], "\x00"))
}

func (x *Index) directory(nid uint64) (Inode, bool) {
	i, ok := x.Inode(nid)
	return i, ok && i.Mode&ModeType == ModeDir && (i.layout == layoutPlain || i.layout == layoutInline)
}

// Lookup returns the inode of a name in a directory. The result is false if it does not exist.
func (x *Index) Lookup(dir uint64, name string) (uint64, bool) {
	d, ok := x.directory(dir)
	if !ok {
		return 0, false
	}
	blocks := int(roundUp(d.Size, BlockSize) / BlockSize)
	n := sort.Search(blocks, func(n int) bool {
		b, entries, ok := x.block(dir, d, uint64(n))
		return !ok || nameAt(b, 0, entries) > name
	}) - 1
	if n < 0 {
		return 0, false
	}
	b, entries, ok := x.block(dir, d, uint64(n))
	if !ok {
		return 0, false
	}
	i := sort.Search(entries, func(i int) bool { return nameAt(b, i, entries) >= name })
	if i == entries || nameAt(b, i, entries) != name {
		return 0, false
	}
	return le.Uint64(b[i*direntSize:]), true
}

// Each calls visit with the entries of a directory in the order of their names, which include "."
// and "..", until visit returns false. It begins at a cookie: 0, or next of the entry before. It
// returns an error if the directory is malformed.
func (x *Index) Each(dir, cookie uint64, visit func(name string, nid uint64, kind byte, next uint64) bool) error {
	d, ok := x.directory(dir)
	if !ok {
		return errBroken
	}
	const entryBits = 16
	first := int(cookie & (1<<entryBits - 1))
	for n := cookie >> entryBits; ; n++ {
		b, entries, ok := x.block(dir, d, n)
		if !ok {
			return errBroken
		}
		if b == nil {
			return nil
		}
		for i := first; i < entries; i++ {
			name := nameAt(b, i, entries)
			if name == "" {
				return errBroken
			}
			if !visit(name, le.Uint64(b[i*direntSize:]), b[i*direntSize+10], n<<entryBits|uint64(i+1)) {
				return nil
			}
		}
		first = 0
	}
}

// Check verifies the whole tree: each entry is well formed, no directory has two parents, and the
// number of inodes is the stated one.
func (x *Index) Check() error {
	t := NewTree()
	if err := t.Merge(x, 0); err != nil {
		return err
	}
	if uint64(t.count) != x.Inodes() {
		return errBroken
	}
	return nil
}
