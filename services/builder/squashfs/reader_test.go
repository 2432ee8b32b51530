package squashfs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// thing is an entry of an image.
type thing struct {
	Kind            uint16
	Mode, Links     uint32
	UID, GID, Mtime uint32
	Device          uint32
	Size            uint64
	Target, Content string
	Attributes      map[string]string
	Number          uint32
}

// maxRead bounds the bytes of one file that the reader holds in memory.
const maxRead = 64 << 20

// reader reads squashfs according to the kernel's documentation, and validates everything.
// It shares no code with the writer.
type reader struct {
	raw                     []byte
	ids                     []uint32
	inodes, listings, pairs table
	fragments               []byte
	sets                    []byte
	seen                    map[uint32]uint32 // how often each number occurs
	unpack                  func([]byte) ([]byte, error)
	all                     map[string]thing
}

// table is unpacked metadata with the positions of its blocks.
type table struct {
	raw    []byte
	starts map[uint64]int
}

func (t table) from(block uint64, offset int) ([]byte, error) {
	at, ok := t.starts[block]
	if !ok || at+offset > len(t.raw) {
		return nil, fmt.Errorf("there is no block at %d", block)
	}
	return t.raw[at+offset:], nil
}

// read returns the content of an image by path; the root is "".
func read(raw []byte) (all map[string]thing, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the image is cut off: %v", p)
		}
	}()
	le := binary.LittleEndian
	r := &reader{raw: raw, seen: map[uint32]uint32{}, all: map[string]thing{}}
	if le.Uint32(raw) != 0x73717368 || le.Uint16(raw[28:]) != 4 || le.Uint64(raw[40:]) > uint64(len(raw)) || len(raw)%4096 != 0 {
		return nil, errors.New("no squashfs 4.0")
	}
	switch le.Uint16(raw[20:]) {
	case 1:
		r.unpack = inflate
	case 6:
		z, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(1<<17), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r.unpack = func(b []byte) ([]byte, error) { return z.DecodeAll(b, nil) }
	}
	if err := r.tables(); err != nil {
		return nil, err
	}
	root := le.Uint64(raw[32:])
	if err := r.inode("", root>>16, int(root&0xffff), 0); err != nil {
		return nil, err
	}
	if n := le.Uint32(raw[4:]); int(n) != len(r.seen) {
		return nil, fmt.Errorf("%d inodes, not %d", len(r.seen), n)
	}
	return r.all, nil
}

func inflate(b []byte) ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func (r *reader) tables() (err error) {
	le := binary.LittleEndian
	at := func(i int) uint64 { return le.Uint64(r.raw[48+8*i:]) }
	ids, xattrs, inodes, listings, fragments := at(0), at(1), at(2), at(3), at(4)
	// The kernel requires the tables in this order.
	firstID := le.Uint64(r.raw[ids:])
	afterListings := firstID
	if n := int(le.Uint32(r.raw[16:])); n > 0 {
		afterListings = le.Uint64(r.raw[fragments:])
		if r.fragments, err = r.indexed(fragments, n*16, fragments, firstID); err != nil {
			return err
		}
	}
	if r.inodes, err = r.metadata(inodes, listings); err != nil {
		return err
	}
	if r.listings, err = r.metadata(listings, afterListings); err != nil {
		return err
	}
	end := le.Uint64(r.raw[40:])
	if xattrs != 1<<64-1 {
		begin, n := le.Uint64(r.raw[xattrs:]), int(le.Uint32(r.raw[xattrs+8:]))
		first := le.Uint64(r.raw[xattrs+16:])
		if r.pairs, err = r.metadata(begin, first); err != nil {
			return err
		}
		if r.sets, err = r.indexed(xattrs+16, n*16, xattrs, end); err != nil {
			return err
		}
		end = begin
	}
	n := int(le.Uint16(r.raw[26:]))
	raw, err := r.indexed(ids, n*4, ids, end)
	for i := 0; err == nil && i < n; i++ {
		r.ids = append(r.ids, le.Uint32(raw[4*i:]))
	}
	return err
}

// indexed reads a table of the given size, whose blocks end at last, by the list of their
// positions, which ends at end.
func (r *reader) indexed(list uint64, size int, last, end uint64) ([]byte, error) {
	blocks := (size + 8191) / 8192
	if list+uint64(8*blocks) != end {
		return nil, fmt.Errorf("a list at %d of %d blocks does not end at %d", list, blocks, end)
	}
	t, err := r.metadata(binary.LittleEndian.Uint64(r.raw[list:]), last)
	if err == nil && (len(t.raw) != size || len(t.starts) != blocks+1) {
		err = fmt.Errorf("a table has %d bytes instead of %d", len(t.raw), size)
	}
	return t.raw, err
}

func (r *reader) metadata(begin, end uint64) (table, error) {
	t := table{starts: map[uint64]int{}}
	for at := begin; ; {
		t.starts[at-begin] = len(t.raw)
		if at >= end {
			return t, nil
		}
		head := binary.LittleEndian.Uint16(r.raw[at:])
		piece := r.raw[at+2 : at+2+uint64(head&0x7fff)]
		at += 2 + uint64(len(piece))
		if head&0x8000 == 0 {
			var err error
			if piece, err = r.unpack(piece); err != nil {
				return t, err
			}
		}
		if len(piece) > 8192 || len(piece) < 8192 && at != end {
			return t, fmt.Errorf("a block of metadata has %d bytes", len(piece))
		}
		t.raw = append(t.raw, piece...)
	}
}

func (r *reader) inode(path string, block uint64, offset int, parent uint32) error {
	b, err := r.inodes.from(block, offset)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	kind := le.Uint16(b)
	t := thing{
		Kind: kind, Mode: uint32(le.Uint16(b[2:])), UID: r.ids[le.Uint16(b[4:])], GID: r.ids[le.Uint16(b[6:])],
		Mtime: le.Uint32(b[8:]), Number: le.Uint32(b[12:]), Links: 1,
	}
	r.seen[t.Number]++
	b = b[16:]
	extended := kind > 7
	if extended {
		t.Kind -= 7
	}
	set := uint32(1<<32 - 1)
	switch kind {
	case 1, 8:
		return r.folder(path, t, b, extended, parent)
	case 2, 9:
		set, err = r.file(&t, b, extended)
	case 3, 10:
		t.Links = le.Uint32(b)
		n := le.Uint32(b[4:])
		t.Target = string(b[8 : 8+n])
		b = b[8+n:]
	case 4, 5, 11, 12:
		t.Links, t.Device = le.Uint32(b), le.Uint32(b[4:])
		b = b[8:]
	case 6, 13:
		t.Links = le.Uint32(b)
		b = b[4:]
	default:
		err = fmt.Errorf("%q is of the kind %d", path, kind)
	}
	if extended && kind != 9 {
		set = le.Uint32(b)
	}
	if err == nil {
		t.Attributes, err = r.attributes(set)
	}
	r.all[path] = t
	return err
}

func (r *reader) attributes(set uint32) (map[string]string, error) {
	if set == 1<<32-1 {
		return nil, nil
	}
	le := binary.LittleEndian
	row := r.sets[16*set:]
	ref := le.Uint64(row)
	b, err := r.pairs.from(ref>>16, int(ref&0xffff))
	out := map[string]string{}
	rest := len(b)
	for range le.Uint32(row[8:]) {
		space, n := le.Uint16(b), le.Uint16(b[2:])
		name := []string{"user.", "trusted.", "security."}[space] + string(b[4:4+n])
		b = b[4+n:]
		size := le.Uint32(b)
		out[name] = string(b[4 : 4+size])
		b = b[4+size:]
	}
	if rest-len(b) != int(le.Uint32(row[12:])) {
		err = errors.New("the size of a set of attributes is wrong")
	}
	return out, err
}

func (r *reader) file(t *thing, b []byte, extended bool) (set uint32, err error) {
	le := binary.LittleEndian
	var start, holes uint64
	var fragment, offset uint32
	set = 1<<32 - 1
	if extended {
		start, t.Size, holes, t.Links = le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[24:])
		fragment, offset, set = le.Uint32(b[28:]), le.Uint32(b[32:]), le.Uint32(b[36:])
		b = b[40:]
	} else {
		start, fragment, offset, t.Size = uint64(le.Uint32(b)), le.Uint32(b[4:]), le.Uint32(b[8:]), uint64(le.Uint32(b[12:]))
		b = b[16:]
	}
	if t.Size > maxRead {
		return set, nil
	}
	var content []byte
	blocks, end := t.Size/(128<<10), t.Size%(128<<10)
	if end > 0 && fragment == 1<<32-1 { // a block of zeros
		blocks, end = blocks+1, 0
	}
	for range blocks {
		word := le.Uint32(b)
		b = b[4:]
		piece := make([]byte, min(128<<10, t.Size-uint64(len(content))))
		if word == 0 {
			holes -= uint64(len(piece))
		} else if piece, err = r.data(start, word); err != nil {
			return set, err
		}
		start += uint64(word &^ (1 << 24))
		content = append(content, piece...)
	}
	if end > 0 {
		row := r.fragments[16*fragment:]
		piece, err := r.data(le.Uint64(row), le.Uint32(row[8:]))
		if err != nil {
			return set, err
		}
		content = append(content, piece[offset:uint64(offset)+end]...)
	} else if fragment != 1<<32-1 {
		return set, errors.New("a file of whole blocks has an end")
	}
	if holes != 0 {
		return set, fmt.Errorf("%d bytes of holes are not there", holes)
	}
	t.Content = string(content)
	return set, nil
}

func (r *reader) data(at uint64, word uint32) ([]byte, error) {
	piece := r.raw[at : at+uint64(word&^(1<<24))]
	if word&(1<<24) != 0 {
		return piece, nil
	}
	return r.unpack(piece)
}

func (r *reader) folder(path string, t thing, b []byte, extended bool, parent uint32) (err error) {
	le := binary.LittleEndian
	var block, size, above uint32
	var offset int
	set, marks := uint32(1<<32-1), map[uint32]string{}
	if extended {
		t.Links, size, block, above = le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])
		n := le.Uint16(b[16:])
		offset, set = int(le.Uint16(b[18:])), le.Uint32(b[20:])
		b = b[24:]
		for range n {
			length := le.Uint32(b[8:]) + 1
			marks[le.Uint32(b)] = string(b[12 : 12+length])
			if at := r.listings.starts[uint64(le.Uint32(b[4:]))]; at/8192 != (r.listings.starts[uint64(block)]+offset+int(le.Uint32(b)))/8192 {
				return fmt.Errorf("the index of %q leads to the wrong block", path)
			}
			b = b[12+length:]
		}
	} else {
		block, t.Links, size, offset, above = le.Uint32(b), le.Uint32(b[4:]), uint32(le.Uint16(b[8:])), int(le.Uint16(b[10:])), le.Uint32(b[12:])
	}
	if parent != 0 && above != parent {
		return fmt.Errorf("%q has the parent %d instead of %d", path, above, parent)
	}
	if t.Attributes, err = r.attributes(set); err != nil {
		return err
	}
	r.all[path] = t
	if size == 3 {
		return nil
	}
	all, err := r.listings.from(uint64(block), offset)
	if err != nil {
		return err
	}
	return r.list(path, t.Number, all[:size-3], marks)
}

func (r *reader) list(path string, number uint32, all []byte, marks map[uint32]string) error {
	le, last, rest := binary.LittleEndian, "", all
	for len(rest) > 0 {
		mark, marked := marks[uint32(len(all)-len(rest))]
		n, block, base := le.Uint32(rest)+1, le.Uint32(rest[4:]), le.Uint32(rest[8:])
		rest = rest[12:]
		for i := range n {
			offset, delta, kind, length := le.Uint16(rest), int16(le.Uint16(rest[2:])), le.Uint16(rest[4:]), int(le.Uint16(rest[6:]))+1
			name := string(rest[8 : 8+length])
			rest = rest[8+length:]
			if name <= last || i == 0 && marked && mark != name {
				return fmt.Errorf("%q comes after %q, its mark is %q", name, last, mark)
			}
			last = name
			full := path + "/" + name
			if err := r.inode(full, uint64(block), int(offset), number); err != nil {
				return err
			}
			if got := r.all[full]; got.Kind != kind || got.Number != uint32(int64(base)+int64(delta)) {
				return fmt.Errorf("%q is listed as a %d", full, kind)
			}
		}
	}
	return nil
}

// without removes the inode numbers, which are not compared.
func without(all map[string]thing) map[string]thing {
	out := maps.Clone(all)
	for path, t := range out {
		t.Number = 0
		out[path] = t
	}
	return out
}
