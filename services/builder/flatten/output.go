package flatten

import (
	"archive/tar"
	"io"
	"time"
)

// Output receives the merged entries. A directory's name ends in a slash; the root's is
// "./".
type Output interface {
	// Add receives one entry, and reads its content up to the header's Size.
	Add(h *tar.Header, content io.Reader) error
}

// Tar is an Output that writes a tar. The caller must close it.
type Tar struct {
	*tar.Writer
	piece []byte
}

// NewTar returns a Tar that writes to w.
func NewTar(w io.Writer) *Tar { return &Tar{tar.NewWriter(w), make([]byte, 128<<10)} }

// Add writes an entry.
func (t *Tar) Add(h *tar.Header, content io.Reader) error {
	if err := t.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	_, err := io.CopyBuffer(t.Writer, content, t.piece)
	return err
}

// output counts written entries.
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

// link writes another name of a written file.
func (o *output) link(path, to string) error {
	return o.write(&tar.Header{Typeflag: tar.TypeLink, Name: path, Linkname: to}, nil)
}

// implied writes a directory that has no entry.
func (o *output) implied(path string) error {
	return o.write(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: time.Unix(0, 0)}, nil)
}
