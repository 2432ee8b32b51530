package flatten

import (
	"archive/tar"
	"io"
	"time"
)

// Output takes what an image amounts to. A name that ends in a slash is a
// directory's, "./" the root's.
type Output interface {
	// Add takes one entry, and reads its content to the header's Size.
	Add(h *tar.Header, content io.Reader) error
}

// Tar is an Output that writes a tar. Its end is its caller's to write.
type Tar struct {
	*tar.Writer
	piece []byte
}

// NewTar writes to w.
func NewTar(w io.Writer) *Tar { return &Tar{tar.NewWriter(w), make([]byte, 128<<10)} }

// Add writes an entry.
func (t *Tar) Add(h *tar.Header, content io.Reader) error {
	if err := t.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	_, err := io.CopyBuffer(t.Writer, content, t.piece)
	return err
}

// output counts what is written.
type output struct {
	to      Output
	summary Summary
}

func (o *output) write(h *tar.Header, content io.Reader) error {
	o.summary.Entries++
	if h.Typeflag == tar.TypeReg {
		o.summary.Bytes += h.Size
	}
	return o.to.Add(h, content)
}

// link writes another name of a file that was written.
func (o *output) link(path, to string) error {
	return o.write(&tar.Header{Typeflag: tar.TypeLink, Name: path, Linkname: to}, nil)
}

// implied writes a directory that no entry describes.
func (o *output) implied(path string) error {
	return o.write(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: time.Unix(0, 0)}, nil)
}
