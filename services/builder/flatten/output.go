package flatten

import (
	"archive/tar"
	"io"
	"time"
)

// output is the tar that is written, and what has been.
type output struct {
	tar     *tar.Writer
	piece   []byte
	summary Summary
}

func newOutput(w io.Writer) output {
	return output{tar: tar.NewWriter(w), piece: make([]byte, 128<<10)}
}

func (o *output) write(h *tar.Header, content io.Reader) error {
	if err := o.tar.WriteHeader(h); err != nil {
		return err
	}
	o.summary.Entries++
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	o.summary.Bytes += h.Size
	_, err := io.CopyBuffer(o.tar, content, o.piece)
	return err
}

// link writes another name of a file that was written.
func (o *output) link(path, to string) error {
	return o.write(&tar.Header{Typeflag: tar.TypeLink, Name: path, Linkname: to}, nil)
}

// implied writes a directory that no entry describes.
func (o *output) implied(path string) error {
	return o.write(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: time.Unix(0, 0)}, nil)
}

// end is the end of the tar, after which nothing is written.
func (o *output) end() (Summary, error) { return o.summary, o.tar.Close() }
