// Package pieces joins parts of files into one file without copying them.
package pieces

import (
	"fmt"
	"io"
	"sort"
)

// A File consists of parts of other files, one after another. The zero value is empty. It is safe
// for concurrent use after the last Append.
type File struct {
	parts []part
	size  int64
}

// part is a part of a file that begins at the position at of the joined one.
type part struct {
	at, length int64
	from       io.ReaderAt
	offset     int64
}

// Append appends length bytes of a file, from offset on. These bytes must not change afterwards. Of a
// File, it appends the parts.
func (f *File) Append(from io.ReaderAt, offset, length int64) {
	if length <= 0 {
		return
	}
	if joined, ok := from.(*File); ok && offset >= 0 && length <= joined.size-offset {
		for _, p := range joined.parts {
			skip := max(offset-p.at, 0)
			f.Append(p.from, p.offset+skip, min(p.length, offset+length-p.at)-skip)
		}
		return
	}
	if n := len(f.parts); n > 0 {
		if last := &f.parts[n-1]; last.from == from && last.offset+last.length == offset {
			last.length += length
			f.size += length
			return
		}
	}
	f.parts = append(f.parts, part{f.size, length, from, offset})
	f.size += length
}

// Size returns the length in bytes.
func (f *File) Size() int64 { return f.size }

// Each calls each for the parts in their order: length bytes of the file from, which begin at offset.
func (f *File) Each(each func(from io.ReaderAt, offset, length int64)) {
	for _, p := range f.parts {
		each(p.from, p.offset, p.length)
	}
}

// ReadAt implements io.ReaderAt. The error is io.ErrUnexpectedEOF if a file has become shorter.
func (f *File) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 {
		return 0, fmt.Errorf("reading at the position %d", at)
	}
	i := sort.Search(len(f.parts), func(i int) bool { return f.parts[i].at+f.parts[i].length > at })
	n := 0
	for ; n < len(p) && i < len(f.parts); i++ {
		from := f.parts[i]
		skip := at + int64(n) - from.at
		want := min(from.length-skip, int64(len(p)-n))
		got, err := from.from.ReadAt(p[n:n+int(want)], from.offset+skip)
		if n += got; int64(got) < want {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
