package index

import (
	"bytes"
	"hash/crc32"
	"iter"
	"os"
	"slices"
)

// ReadAll reads everything in the bytes of a file.
func ReadAll(mem []byte, p Place) error {
	x, err := read(mem, p)
	if err != nil {
		return err
	}
	for name := range x.Names() {
		if _, err := x.Dependents(name); err != nil {
			return err
		}
		if _, err := x.Records(name); err != nil {
			return err
		}
	}
	return nil
}

// Names returns all names, sorted.
func (x *Index) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range x.count {
			if !yield(string(x.name(i))) {
				return
			}
		}
	}
}

// IsNear reports whether one edit turns a into b.
func IsNear(a, b string) bool { return isOneEdit([]byte(a), []byte(b)) }

// LinearSearch compares a text with each name, and returns the positions of the matches and their
// ranks.
func (x *Index) LinearSearch(text string) (at []int, ranks []Rank) {
	for i := range x.count {
		if r, ok := rank([]byte(text), x.name(i)); ok {
			at, ranks = append(at, i), append(ranks, r)
		}
	}
	return at, ranks
}

// LinearNear compares a text with each name, and returns up to most similar ones.
func (x *Index) LinearNear(text string, most int) (out []string) {
	for i := 0; i < x.count && len(out) < most; i++ {
		if isOneEdit([]byte(text), x.name(i)) {
			out = append(out, string(x.name(i)))
		}
	}
	return out
}

// Seal sets the checksum of the directory in the bytes of a file, so that its content is
// checked next.
func Seal(raw []byte) []byte {
	raw = bytes.Clone(raw)
	f, err := parseFooter(raw)
	if err == nil {
		f.sum = crc32.Checksum(raw[f.names:f.end], castagnoli)
		copy(raw[f.end:], f.append(nil))
	}
	return raw
}

// WithNames returns the bytes of a file that has size bytes of names, which belong to no
// entry.
func WithNames(size int) []byte {
	raw := append(make([]byte, size), "{}"...)
	n := uint64(size)
	f := footer{entries: n, runs: n, meta: n, uses: n + 2, texts: n + 2, end: n + 2, sum: crc32.Checksum(raw, castagnoli)}
	return f.append(raw)
}

// WriteAll writes b to a file in pieces of a size, and returns the errors of writing and of
// closing.
func WriteAll(f *os.File, b []byte, size int) (writing, ending error) {
	out := newBackgroundWriter(f)
	for piece := range slices.Chunk(b, size) {
		if _, writing = out.Write(piece); writing != nil {
			break
		}
	}
	return writing, out.close()
}

// BlockSize is the size of a full block, in bytes.
const BlockSize = blockSize
