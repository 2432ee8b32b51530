package ztoc

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"slipway.dev/services/internal/limits"
)

// file is an entry of the tar. Layers have up to a million, most of which have no details.
type file struct {
	name, link   string
	offset, size int64 // of the content in the tar
	mode         int64
	seconds      int64 // the time of modification since the epoch
	uid, gid     uint32
	flag         byte // its type in the tar
	details      *details
}

// details are the attributes that most files do not have.
type details struct {
	user, group              string
	nanoseconds              int
	deviceMajor, deviceMinor int64
	records                  []string // PAX records: names and values in turn, sorted by name
}

// isZero reports whether no attribute is set.
func (d details) isZero() bool {
	return d.user == "" && d.group == "" && d.nanoseconds == 0 && d.deviceMajor == 0 && d.deviceMinor == 0 && len(d.records) == 0
}

const (
	blockSize = 512
	// metaLimit limits the PAX records and long names of an entry, as archive/tar does.
	metaLimit = 1 << 20
)

// tocState is the part of the tar that a toc expects next.
type tocState int

const (
	tocHeader  tocState = iota // a header or a zero block
	tocMeta                    // the content of a header that describes the next entry
	tocContent                 // the content of an entry, and its padding
	tocEnd                     // nothing: the tar has ended
)

// toc lists the entries of a tar that is written to it. It buffers only headers.
type toc struct {
	files  []file
	state  tocState
	offset int64 // bytes written
	size   int64 // offset behind the second zero block
	zero   bool  // the last block was the first zero block

	headers []byte // headers of the entry so far, with their content
	need    int    // length of headers at which the next part is complete
	skip    int64  // remaining bytes of content and padding
	padding int64  // how many of these are padding
	names   int64  // bytes of all names
}

func newTOC() *toc { return &toc{need: blockSize} }

// Write adds a part of the tar. The result is always len(p) or an error.
func (t *toc) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && t.state != tocEnd {
		var took int
		if t.state == tocContent {
			took = int(min(t.skip, int64(len(p))))
			t.skip -= int64(took)
			if t.skip == 0 {
				t.expectHeader()
			}
		} else {
			took = min(t.need-len(t.headers), len(p))
			t.headers = append(t.headers, p[:took]...)
		}
		t.offset += int64(took)
		p = p[took:]
		if t.state != tocContent && len(t.headers) == t.need {
			if err := t.complete(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (t *toc) expectHeader() { t.state, t.headers, t.need = tocHeader, t.headers[:0], blockSize }

// complete handles a complete header, or the complete content of a header that describes the
// next entry.
func (t *toc) complete() error {
	if t.state == tocMeta {
		t.state, t.need = tocHeader, len(t.headers)+blockSize
		return nil
	}
	block := t.headers[len(t.headers)-blockSize:]
	if !slices.ContainsFunc(block, func(b byte) bool { return b != 0 }) {
		return t.zeroBlock()
	}
	if t.zero {
		return invalidf("its tar has an entry after a zero block")
	}
	switch block[156] {
	case tar.TypeXHeader, tar.TypeGNULongName, tar.TypeGNULongLink:
		return t.meta(block)
	}
	return t.entry()
}

func (t *toc) zeroBlock() error {
	if len(t.headers) > blockSize {
		return invalidf("its tar has PAX records without an entry")
	}
	if t.zero {
		t.state, t.size = tocEnd, t.offset
	}
	t.zero = true
	t.expectHeader()
	if t.size > 0 {
		t.state = tocEnd
	}
	return nil
}

// meta expects the content of a header that describes the next entry.
func (t *toc) meta(block []byte) error {
	size, err := metaSize(block)
	if err != nil {
		return err
	}
	if size > metaLimit || len(t.headers)+size > 4*metaLimit {
		return invalidf("its tar has an entry with too long names or PAX records")
	}
	if size == 0 {
		t.need += blockSize
		return nil
	}
	t.state, t.need = tocMeta, t.need+int(padded(int64(size)))
	return nil
}

// metaSize returns the size in the header of PAX records or of a long name.
func metaSize(block []byte) (int, error) {
	// The type is replaced, so that the size can be read without the content. The checksum
	// is verified when the entry is complete.
	copied := slices.Clone(block)
	copied[156] = tar.TypeReg
	sum := int64(' ') * 8
	for i, b := range copied {
		if i < 148 || i >= 156 {
			sum += int64(b)
		}
	}
	for i := range 6 {
		copied[148+i] = byte('0' + sum>>(15-3*i)&7)
	}
	copied[154], copied[155] = 0, ' '
	h, err := tar.NewReader(bytes.NewReader(copied)).Next()
	if err != nil {
		return 0, invalidf("its tar has a malformed header: %w", err)
	}
	return int(min(h.Size, metaLimit+1)), nil
}

func padded(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

// entry adds the entry whose headers are complete.
func (t *toc) entry() error {
	f, err := t.parse()
	if err != nil {
		return err
	}
	if t.names += int64(len(t.headers)); len(t.files) == limits.ImageEntries || t.names > limits.ZtocBytes {
		return invalidf("its tar has too many entries: the limits are %d, and %d MiB for their headers", limits.ImageEntries, limits.ZtocBytes>>20)
	}
	t.files = append(t.files, f)
	t.expectHeader()
	if f.size > 0 {
		t.state, t.skip = tocContent, padded(f.size)
		t.padding = t.skip - f.size
	}
	return nil
}

// parse parses the headers of an entry.
func (t *toc) parse() (file, error) {
	if len(t.headers) == blockSize {
		if f, ok := parseUSTAR(t.headers, t.offset); ok {
			return f, nil
		}
	}
	h, err := tar.NewReader(bytes.NewReader(t.headers)).Next()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return file{}, invalidf("its tar has a sparse file")
	}
	if err != nil {
		return file{}, invalidf("its tar has a malformed header: %w", err)
	}
	return newFile(h, t.offset)
}

// newFile returns the entry of a header whose content begins at an offset.
func newFile(h *tar.Header, offset int64) (file, error) {
	if _, known := kind(h.Typeflag); !known {
		return file{}, invalidf("its tar has an entry of the unknown type %q", h.Typeflag)
	}
	f := file{
		name: h.Name, flag: h.Typeflag, link: h.Linkname, offset: offset, mode: h.Mode, seconds: h.ModTime.Unix(),
		uid: uint32(h.Uid), gid: uint32(h.Gid),
	}
	if h.Typeflag == tar.TypeReg {
		f.size = h.Size
	}
	d := details{user: h.Uname, group: h.Gname, nanoseconds: h.ModTime.Nanosecond(), deviceMajor: h.Devmajor, deviceMinor: h.Devminor}
	for _, name := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return file{}, invalidf("its tar has a sparse file")
		}
		d.records = append(d.records, name, h.PAXRecords[name])
	}
	if !d.isZero() {
		f.details = &d
	}
	return f, nil
}

// kind returns the name of an entry's type.
func kind(flag byte) (name string, known bool) {
	switch flag {
	case tar.TypeReg:
		return "reg", true
	case tar.TypeLink:
		return "hardlink", true
	case tar.TypeSymlink:
		return "symlink", true
	case tar.TypeDir:
		return "dir", true
	case tar.TypeChar:
		return "char", true
	case tar.TypeBlock:
		return "block", true
	case tar.TypeFifo:
		return "fifo", true
	}
	return "", false
}

// finish ends the tar. Its trailing zero blocks and padding may be missing.
func (t *toc) finish() error {
	switch {
	case t.state == tocContent && t.skip > t.padding, t.state == tocMeta, t.state == tocHeader && len(t.headers) > 0:
		return invalidf("its tar is truncated")
	case t.state != tocEnd:
		t.size = t.offset
	}
	return nil
}
