package index

import (
	"bytes"
	"hash/crc32"
	"os"
)

// ReadAll reads everything in the bytes of a file.
func ReadAll(mem []byte, p Place) error {
	x, err := read(mem, p)
	if err != nil {
		return err
	}
	for name := range x.Names() {
		if _, err := x.Records(name); err != nil {
			return err
		}
	}
	return nil
}

// IsNear says whether one edit makes a into b.
func IsNear(a, b string) bool { return near([]byte(a), []byte(b)) }

// Seal gives the bytes of a file the right checksum of its directory, so that what is
// in it is looked at.
func Seal(raw []byte) []byte {
	raw = bytes.Clone(raw)
	f, err := parseFooter(raw)
	if err == nil {
		f.sum = crc32.Checksum(raw[f.names:f.end], castagnoli)
		copy(raw[f.end:], f.append(nil))
	}
	return raw
}

// WriteAll writes b to a file, and tells the errors of writing and of the end.
func WriteAll(f *os.File, b []byte) (writing, ending error) {
	out := writeBehind(f)
	_, writing = out.Write(b)
	return writing, out.close()
}

// BlockSize is what is written at once.
const BlockSize = blockSize
