package erofslayer

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
)

// errMalformed is returned for bytes that are no EROFS image.
var errMalformed = refuse("the EROFS image is malformed")

// errLate is returned for an image whose metadata cannot be kept in memory.
var errLate = refuse("the EROFS image has more than %d MiB of metadata, or has them after the contents of files", limits.ErofsMetadata>>20)

// HeadSize is the length of the beginning of an image by which IsImage recognizes it.
const HeadSize = superOffset + 4

// IsImage reports whether the beginning of a file is that of an EROFS image.
func IsImage(head []byte) bool {
	return len(head) >= HeadSize && le.Uint32(head[superOffset:]) == superMagic
}

// Each calls visit for the entries of an image in the form of a layer's tar, with the files in the order of
// their contents. It reads images whose metadata precede the contents and which are not compressed within,
// as those of Writer. first, which may be nil, reports whether one of several names of a file is that which
// the other names are hard links to. Each returns a *Refusal if the image cannot be read.
func Each(image io.Reader, first func(name string) bool, visit func(h *tar.Header, content io.Reader) error) error {
	r := &reader{in: image, first: first, visit: visit, seen: map[uint64]bool{}, linked: map[uint64][]string{}}
	return r.read()
}

// Tar returns the entries of Each as a tar. The caller closes the tar, and may use image again after that.
func Tar(image io.Reader, first func(name string) bool) io.ReadCloser {
	out, in := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := tar.NewWriter(in)
		err := Each(image, first, func(h *tar.Header, content io.Reader) error {
			if err := w.WriteHeader(h); err != nil {
				return err
			}
			_, err := io.Copy(w, content)
			return err
		})
		if err == nil {
			err = w.Close()
		}
		_ = in.CloseWithError(err) // it returns nil
	}()
	return &tarReader{out, done}
}

// A tarReader is the tar of an image that a goroutine reads.
type tarReader struct {
	*io.PipeReader
	done <-chan struct{}
}

// Close waits until the image is not read any more.
func (t *tarReader) Close() error {
	err := t.PipeReader.Close()
	<-t.done
	return err
}

// A reader reads an image from its beginning to its end.
type reader struct {
	in    io.Reader
	first func(string) bool
	visit func(h *tar.Header, content io.Reader) error

	metadata []byte // the beginning of the image
	at       uint64 // position of in
	start    uint64 // of the inodes
	size     uint64 // of the image
	built    time.Time

	count, names int // number of names, and bytes of those that are kept
	seen         map[uint64]bool
	files        []file
	linked       map[uint64][]string
	order        []uint64 // keys of linked
}

// A file is a file whose contents are in blocks.
type file struct {
	name string
	nid  uint64
	from uint64
}

// An inode is a decoded inode.
type inode struct {
	layout, mode uint16
	size         uint64
	union        uint32
	uid, gid     uint32
	mtime        time.Time
	nlink        uint32
	xattrs       uint64 // position
	xattrCount   uint16
	tail         uint64 // position of what follows
}

// bytes returns a part of the metadata, and reads the image up to it.
func (r *reader) bytes(at, n uint64) ([]byte, error) {
	if at > limits.ErofsMetadata || n > limits.ErofsMetadata-at {
		return nil, errLate
	}
	if end := roundUp(at+n, blockSize); end > uint64(len(r.metadata)) {
		if r.at != uint64(len(r.metadata)) {
			return nil, errLate
		}
		more := bytes.NewBuffer(r.metadata)
		read, err := io.CopyN(more, r.in, int64(end)-int64(len(r.metadata)))
		r.at += uint64(read)
		if r.metadata = more.Bytes(); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if at+n > uint64(len(r.metadata)) {
			return nil, errMalformed
		}
	}
	return r.metadata[at : at+n : at+n], nil
}

func (r *reader) read() error {
	s, err := r.bytes(superOffset, superSize)
	if err != nil {
		return err
	}
	if le.Uint32(s) != superMagic || s[12] != blockBits {
		return errMalformed
	}
	if le.Uint32(s[80:]) != 0 {
		return refuse("the EROFS image has features that cannot be read, such as compression")
	}
	r.start, r.size = uint64(le.Uint32(s[40:]))*blockSize, uint64(le.Uint32(s[36:]))*blockSize
	r.built = time.Unix(int64(le.Uint64(s[24:])), int64(le.Uint32(s[32:])))
	if err := r.walk("", uint64(le.Uint16(s[14:]))); err != nil {
		return err
	}
	return r.rest()
}

// inode reads an inode.
func (r *reader) inode(nid uint64) (i inode, err error) {
	if nid > limits.ErofsMetadata/slotSize {
		return i, errMalformed
	}
	at := r.start + nid*slotSize
	p, err := r.bytes(at, compactSize)
	if err != nil {
		return i, err
	}
	i = inode{layout: le.Uint16(p) >> 1, xattrCount: le.Uint16(p[2:]), mode: le.Uint16(p[4:]), union: le.Uint32(p[16:])}
	size := uint64(compactSize)
	if le.Uint16(p)&1 == 0 {
		i.nlink, i.size = uint32(le.Uint16(p[6:])), uint64(le.Uint32(p[8:]))
		i.uid, i.gid, i.mtime = uint32(le.Uint16(p[24:])), uint32(le.Uint16(p[26:])), r.built
	} else {
		size = inodeSize
		if p, err = r.bytes(at, inodeSize); err != nil {
			return i, err
		}
		i.size, i.uid, i.gid, i.nlink = le.Uint64(p[8:]), le.Uint32(p[24:]), le.Uint32(p[28:]), le.Uint32(p[44:])
		i.mtime = time.Unix(int64(le.Uint64(p[32:])), int64(le.Uint32(p[40:])))
	}
	i.xattrs, i.tail = at+size, at+size
	if i.xattrCount > 0 {
		i.tail += xattrHeader + 4*uint64(i.xattrCount-1)
	}
	if i.layout != layoutPlain && i.layout != layoutInline || i.size > math.MaxInt64/2 || kindOf(i.mode) == 0 {
		return i, refuse("the EROFS image has files that cannot be read, such as compressed ones")
	}
	_, err = r.bytes(i.xattrs, i.tail-i.xattrs+i.inlined()) // it must be known before contents are read
	return i, err
}

// entry returns an entry of a tar with the owner and time of an inode.
func (i inode) entry(flag byte, name string) *tar.Header {
	h := &tar.Header{Typeflag: flag, Name: name, Uid: int(i.uid), Gid: int(i.gid), ModTime: i.mtime}
	if i.mtime.Nanosecond() != 0 {
		h.Format = tar.FormatPAX // other formats have whole seconds
	}
	return h
}

// header returns an inode as an entry of a tar.
func (r *reader) header(name string, i inode) (*tar.Header, error) {
	h := i.entry(0, name)
	h.Mode = int64(i.mode & 0o7777)
	if i.xattrCount > 0 {
		p, err := r.bytes(i.xattrs, i.tail-i.xattrs)
		if err != nil {
			return nil, err
		}
		if p[4] != 0 {
			return nil, refuse("%.200q shares extended attributes with other files", name)
		}
		xattrs, err := decodeXattrs(p[xattrHeader:])
		if err != nil {
			return nil, err
		}
		h.PAXRecords = map[string]string{}
		for k, v := range xattrs {
			h.PAXRecords[paxXattr+k] = v
		}
	}
	switch i.mode & modeType {
	case modeFile:
		h.Typeflag, h.Size = tar.TypeReg, int64(i.size)
	case modeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case modeLink:
		h.Typeflag = tar.TypeSymlink
		target, err := r.data(i, maxTarget)
		if h.Linkname = string(target); err != nil || h.Linkname == "" {
			return nil, cmp.Or(err, errMalformed)
		}
	case modeChar, modeBlock:
		h.Typeflag = map[bool]byte{true: tar.TypeChar, false: tar.TypeBlock}[i.mode&modeType == modeChar]
		h.Devmajor, h.Devminor = int64(i.union>>8&0xfff), int64(i.union&0xff|i.union>>12&^0xff)
	case modeFIFO:
		h.Typeflag = tar.TypeFifo
	default:
		return nil, refuse("%.200q is a socket", name)
	}
	return h, nil
}

// data returns data in the metadata: a directory, or the target of a link.
func (r *reader) data(i inode, most uint64) ([]byte, error) {
	if i.size > most {
		return nil, errMalformed
	}
	tail := i.inlined()
	blocks, err := r.bytes(uint64(i.union)*blockSize, i.size-tail)
	if i.size == tail {
		blocks, err = nil, nil
	}
	if err != nil || tail == 0 {
		return blocks, err
	}
	end, err := r.bytes(i.tail, tail)
	return slices.Concat(blocks, end), err
}

// inlined returns the length of the data behind an inode.
func (i inode) inlined() uint64 {
	if i.layout == layoutInline {
		return i.size % blockSize
	}
	return 0
}

// walk visits a directory and what is in it, except the contents of files in blocks.
func (r *reader) walk(name string, nid uint64) error {
	i, err := r.inode(nid)
	if err != nil {
		return err
	}
	if i.mode&modeType != modeDir || r.seen[nid] {
		return errMalformed
	}
	r.seen[nid] = true
	if name != "" {
		if err := r.directory(name, i); err != nil {
			return err
		}
	}
	content, err := r.data(i, limits.ErofsMetadata)
	if err != nil {
		return err
	}
	for block := range slices.Chunk(content, blockSize) {
		if err := r.block(name, block); err != nil {
			return err
		}
	}
	return nil
}

// directory visits the entry of a directory.
func (r *reader) directory(name string, i inode) error {
	h, err := r.header(name, i)
	if err != nil {
		return err
	}
	_, isOpaque := h.PAXRecords[paxXattr+opaqueXattr]
	delete(h.PAXRecords, paxXattr+opaqueXattr)
	if err := r.visit(h, bytes.NewReader(nil)); err != nil || !isOpaque {
		return err
	}
	return r.visit(i.entry(tar.TypeReg, name+"/"+opaqueName), bytes.NewReader(nil))
}

// block visits the entries of a block of a directory.
func (r *reader) block(dir string, b []byte) error {
	if len(b) < direntSize {
		return errMalformed
	}
	count := int(le.Uint16(b[8:])) / direntSize
	if count == 0 || count*direntSize > len(b) {
		return errMalformed
	}
	for k := range count {
		from, to := int(le.Uint16(b[k*direntSize+8:])), len(b)
		if k+1 < count {
			to = int(le.Uint16(b[(k+1)*direntSize+8:]))
		}
		if from < count*direntSize || from > to || to > len(b) {
			return errMalformed
		}
		base := string(b[from:to])
		if end := strings.IndexByte(base, 0); end >= 0 {
			base = base[:end]
		}
		if base == "." || base == ".." {
			continue
		}
		name := path.Join(dir, base)
		r.count++
		if base == "" || strings.Contains(base, "/") || len(name) > maxPath || r.count > limits.ImageEntries {
			return errMalformed
		}
		if err := r.entry(name, le.Uint64(b[k*direntSize:]), b[k*direntSize+10]); err != nil {
			return err
		}
	}
	return nil
}

// entry visits a name.
func (r *reader) entry(name string, nid uint64, kind byte) error {
	i, err := r.inode(nid)
	if err != nil {
		return err
	}
	switch {
	case kindOf(i.mode) != kind:
		return errMalformed
	case i.mode&modeType == modeDir:
		return r.walk(name, nid)
	case i.mode&modeType == modeChar && i.union == 0:
		return r.visit(i.entry(tar.TypeReg, path.Join(path.Dir(name), whiteoutPrefix+path.Base(name))), bytes.NewReader(nil))
	case i.nlink > 1:
		if r.names += len(name); r.names > limits.ImageNameBytes {
			return errMalformed
		}
		if r.linked[nid] == nil {
			r.order = append(r.order, nid)
		}
		r.linked[nid] = append(r.linked[nid], name)
		return nil
	}
	return r.file(name, nid, i)
}

// file visits a file, or notes it if it has contents in blocks.
func (r *reader) file(name string, nid uint64, i inode) error {
	if i.mode&modeType == modeFile && i.size > i.inlined() {
		if r.names += len(name); r.names > limits.ImageNameBytes {
			return errMalformed
		}
		r.files = append(r.files, file{name, nid, uint64(i.union) * blockSize})
		return nil
	}
	h, err := r.header(name, i)
	if err != nil {
		return err
	}
	content := []byte(nil)
	if i.mode&modeType == modeFile && i.size > 0 {
		content, err = r.bytes(i.tail, i.size)
	}
	if err != nil {
		return err
	}
	return r.visit(h, bytes.NewReader(content))
}

// rest visits the files with contents in blocks, and hard links.
func (r *reader) rest() error {
	var links []*tar.Header
	for _, nid := range r.order {
		names := r.linked[nid]
		which := max(0, slices.IndexFunc(names, func(name string) bool { return r.first == nil || r.first(name) }))
		i, err := r.inode(nid)
		if err != nil {
			return err
		}
		if err := r.file(names[which], nid, i); err != nil {
			return err
		}
		for k, name := range names {
			if k != which {
				h := i.entry(tar.TypeLink, name)
				h.Linkname, h.Mode = names[which], int64(i.mode&0o7777)
				links = append(links, h)
			}
		}
	}
	slices.SortStableFunc(r.files, func(a, b file) int { return cmp.Compare(a.from, b.from) })
	end := uint64(0)
	for _, f := range r.files {
		if f.from < end {
			return refuse("%.200q shares contents with another file", f.name)
		}
		size, err := r.content(f)
		if err != nil {
			return err
		}
		end = f.from + size
	}
	for _, h := range links {
		if err := r.visit(h, bytes.NewReader(nil)); err != nil {
			return err
		}
	}
	last, err := io.Copy(io.Discard, r.in)
	if err == nil && r.at+uint64(last) < r.size {
		return errMalformed // the last block is truncated
	}
	return err
}

// content visits a file with its contents. It returns the length of the contents in blocks.
func (r *reader) content(f file) (uint64, error) {
	i, err := r.inode(f.nid)
	if err != nil {
		return 0, err
	}
	h, err := r.header(f.name, i)
	if err != nil {
		return 0, err
	}
	length := i.size - i.inlined()
	var content io.Reader
	if known := uint64(len(r.metadata)); f.from < known {
		content = bytes.NewReader(r.metadata[f.from:min(f.from+length, known)])
	}
	if end := f.from + length; end > r.at {
		skip := max(f.from, r.at) - r.at
		if _, err := io.CopyN(io.Discard, r.in, int64(skip)); err != nil {
			return 0, endOf(err)
		}
		left := end - max(f.from, r.at)
		r.at = end
		next := io.LimitReader(r.in, int64(left))
		if content == nil {
			content = next
		} else {
			content = io.MultiReader(content, next)
		}
	}
	whole := &wholeReader{in: content, left: length}
	readers := []io.Reader{whole}
	if tail := i.inlined(); tail > 0 {
		end, err := r.bytes(i.tail, tail)
		if err != nil {
			return 0, err
		}
		readers = append(readers, bytes.NewReader(end))
	}
	if err := r.visit(h, io.MultiReader(readers...)); err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, whole)
	return length, err
}

func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return errMalformed
	}
	return err
}

// A wholeReader returns an error if its reader ends early.
type wholeReader struct {
	in   io.Reader
	left uint64
}

// Read implements io.Reader.
func (w *wholeReader) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.left -= uint64(n)
	if errors.Is(err, io.EOF) && w.left > 0 {
		return n, errMalformed
	}
	return n, err
}
