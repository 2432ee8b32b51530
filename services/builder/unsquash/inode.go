package unsquash

import "encoding/binary"

// Kinds of inodes. The extended kinds follow the basic ones in the same order.
const (
	kindDir, kindFile, kindLink, kindBlock, kindChar, kindFifo, kindSocket = 1, 2, 3, 4, 5, 6, 7
	extended                                                               = 7
)

// maxTarget is the maximum length of a symbolic link in bytes, as in the kernel.
const maxTarget = 4096

// An inode is a file, directory or other node.
type inode struct {
	// kind is one of the basic kinds.
	kind     uint16
	mode     uint16
	uid, gid uint32
	mtime    uint32
	number   uint32
	links    uint32
	attrs    uint32
	target   string // of a symbolic link

	// size is the length of a file, or of the listing of a directory.
	size uint64
	// listing is the reference of a directory's listing.
	listing uint64
	// first is the position of a file's first block, and sizes reads the lengths of its
	// blocks. fragment is the index of the fragment block with the end of the file, or
	// none, and offset is the position of that end in the expanded block.
	first            uint64
	sizes            *cursor
	fragment, offset uint32
}

// inode reads an inode by its reference.
func (img *image) inode(reference uint64) (inode, error) {
	c := img.at(img.super.InodeTable, reference)
	var head struct {
		Kind, Mode, UID, GID uint16
		Time, Number         uint32
	}
	if err := c.read(&head); err != nil {
		return inode{}, err
	}
	n := inode{kind: head.Kind, mode: head.Mode, mtime: head.Time, number: head.Number, attrs: none, links: 1}
	var err error
	if n.uid, err = img.owner(head.UID); err != nil {
		return n, err
	}
	if n.gid, err = img.owner(head.GID); err != nil {
		return n, err
	}
	isExtended := n.kind > extended
	if isExtended {
		n.kind -= extended
	}
	switch n.kind {
	case kindDir:
		return n, n.readDirectory(c, isExtended)
	case kindFile:
		return n, n.readFile(c, isExtended)
	case kindLink:
		return n, n.readLink(c, isExtended)
	case kindBlock, kindChar:
		return n, nil // left out
	case kindFifo, kindSocket:
		if err = c.read(&n.links); err == nil && isExtended {
			err = c.read(&n.attrs)
		}
		return n, err
	}
	return n, refuse("there is an inode of an unknown kind")
}

// owner returns a user or group by its index.
func (img *image) owner(index uint16) (uint32, error) {
	if index >= img.super.IDs {
		return 0, refuse("a file has no owner")
	}
	c, err := img.indexed(img.super.IDTable, int(index), 4)
	if err != nil {
		return 0, err
	}
	var id uint32
	return id, c.read(&id)
}

func (n *inode) readDirectory(c *cursor, isExtended bool) error {
	if isExtended {
		var d struct {
			Links, Size, Block, Parent uint32
			Index, Offset              uint16
			Attrs                      uint32
		}
		err := c.read(&d)
		n.links, n.size, n.listing, n.attrs = d.Links, uint64(d.Size), uint64(d.Block)<<16|uint64(d.Offset), d.Attrs
		return err
	}
	var d struct {
		Block, Links uint32
		Size, Offset uint16
		Parent       uint32
	}
	err := c.read(&d)
	n.links, n.size, n.listing = d.Links, uint64(d.Size), uint64(d.Block)<<16|uint64(d.Offset)
	return err
}

func (n *inode) readFile(c *cursor, isExtended bool) error {
	if isExtended {
		var f struct {
			First, Size, Sparse            uint64
			Links, Fragment, Offset, Attrs uint32
		}
		err := c.read(&f)
		n.first, n.size, n.links, n.fragment, n.offset, n.attrs = f.First, f.Size, f.Links, f.Fragment, f.Offset, f.Attrs
		n.sizes = c
		return err
	}
	var f struct{ First, Fragment, Offset, Size uint32 }
	err := c.read(&f)
	n.first, n.size, n.fragment, n.offset, n.sizes = uint64(f.First), uint64(f.Size), f.Fragment, f.Offset, c
	return err
}

func (n *inode) readLink(c *cursor, isExtended bool) error {
	var l struct{ Links, Length uint32 }
	if err := c.read(&l); err != nil {
		return err
	}
	if l.Length == 0 || l.Length > maxTarget {
		return refuse("a symbolic link has an invalid length")
	}
	target := make([]byte, l.Length)
	if err := c.fill(target); err != nil {
		return err
	}
	n.links, n.target = l.Links, string(target)
	if isExtended {
		return c.read(&n.attrs)
	}
	return nil
}

// An entry is a name in a directory.
type entry struct {
	name  string
	inode uint64 // its reference
}

// A listing reads the entries of a directory.
type listing struct {
	c    *cursor
	left int64 // bytes
	// run is the number of next entries whose inodes are in the metadata block at block.
	run   uint32
	block uint32
}

func (img *image) listing(dir inode) *listing {
	// The size of a directory is 3 bytes more than its stored entries, for "." and "..".
	return &listing{c: img.at(img.super.DirTable, dir.listing), left: int64(dir.size) - 3}
}

// next returns the next entry, or ok false at the end.
func (l *listing) next() (e entry, ok bool, err error) {
	if l.run == 0 {
		if l.left <= 0 {
			return entry{}, false, nil
		}
		var head [12]byte
		if err := l.take(head[:]); err != nil {
			return entry{}, false, err
		}
		l.run, l.block = binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
		if l.run++; l.run == 0 || l.run > 256 {
			return entry{}, false, refuse("a directory is malformed")
		}
	}
	l.run--
	var head [8]byte
	if err := l.take(head[:]); err != nil {
		return entry{}, false, err
	}
	length := int(binary.LittleEndian.Uint16(head[6:])) + 1
	if length > 256 {
		return entry{}, false, refuse("a name is longer than 256 bytes")
	}
	name := make([]byte, length)
	if err := l.take(name); err != nil {
		return entry{}, false, err
	}
	offset := uint64(binary.LittleEndian.Uint16(head[:]))
	return entry{string(name), uint64(l.block)<<16 | offset}, true, nil
}

func (l *listing) take(p []byte) error {
	if l.left -= int64(len(p)); l.left < 0 {
		return refuse("a directory is malformed")
	}
	return l.c.fill(p)
}
