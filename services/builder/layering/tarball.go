package layering

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/artifact"
	"slipway.dev/services/internal/fault"
)

// tarball writes a layer. Folders come before what is in them, once, and are the
// same in every layer: whichever lies above, they stay as they are.
type tarball struct {
	tar      *tar.Writer
	packer   *packer
	packed   *counter
	sum, raw hash.Hash // of what is compressed, and of the tar

	compression Compression
	prefix      string // without the first "/"
	seen        map[string]byte
	Package
}

func newTarball(out io.Writer, prefix string, c Compression) (*tarball, error) {
	t := &tarball{sum: sha256.New(), raw: sha256.New(), prefix: strings.TrimPrefix(prefix, "/"), seen: map[string]byte{}, compression: c}
	t.packed = &counter{out: io.MultiWriter(out, t.sum)}
	var err error
	t.packer, err = c.packer(t.packed)
	t.tar = tar.NewWriter(io.MultiWriter(t.packer, t.raw))
	return t, err
}

// Put implements artifact.Sink.
func (t *tarball) Put(e artifact.Entry, content io.Reader) error {
	if e.Type == tar.TypeDir {
		t.Paths = append(t.Paths, e.Path+"/")
		return t.folder(path.Join(t.prefix, e.Path))
	}
	h := &tar.Header{Typeflag: e.Type, Name: path.Join(t.prefix, e.Path), Linkname: e.Target, Mode: e.Mode, ModTime: e.ModTime, Size: e.Size}
	t.Paths = append(t.Paths, e.Path)
	if e.Type == tar.TypeLink {
		if t.HardLinks == nil {
			t.HardLinks = map[string]string{}
		}
		t.HardLinks[e.Path] = e.Target
		h.Linkname = path.Join(t.prefix, e.Target)
	}
	return t.entry(h, content)
}

// entry writes what is no folder, and the folders above it.
func (t *tarball) entry(h *tar.Header, content io.Reader) error {
	if err := t.folder(path.Dir(h.Name)); err != nil {
		return err
	}
	if t.seen[h.Name] != 0 {
		return fault.Invalid.Newf("%.200q is both a folder and a file, or comes twice", h.Name)
	}
	t.seen[h.Name] = h.Typeflag
	if err := t.tar.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.CopyBuffer(t.tar, struct{ io.Reader }{content}, t.packer.piece)
	if errors.Is(err, tar.ErrWriteTooLong) {
		return fmt.Errorf("%s is longer than it was said to be: %w", h.Name, err)
	}
	return err
}

// folder writes a folder and those above it.
func (t *tarball) folder(name string) error {
	switch t.seen[name] {
	case tar.TypeDir:
		return nil
	case 0:
	default:
		return fault.Invalid.Newf("%.200q is both a folder and a file", name)
	}
	if name == "." {
		return nil
	}
	if err := t.folder(path.Dir(name)); err != nil {
		return err
	}
	t.seen[name] = tar.TypeDir
	return t.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
}

// close ends the layer, and says what it is.
func (t *tarball) close() (Package, error) {
	if err := errors.Join(t.tar.Close(), t.packer.Close()); err != nil {
		return Package{}, err
	}
	t.compression.giveBack(t.packer)
	t.Layer = Layer{
		MediaType: t.compression.mediaType(), Digest: digest.NewDigest(digest.SHA256, t.sum), Size: t.packed.n, DiffID: digest.NewDigest(digest.SHA256, t.raw),
	}
	return t.Package, nil
}
