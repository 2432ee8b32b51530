package layering

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/ztoc"
)

// tarball writes a layer. Each folder is written once, before its content, and is the same
// in every layer, so that the order of layers does not matter for folders.
type tarball struct {
	tar      *tar.Writer
	packer   *packer
	packed   *counter
	sum, raw hash.Hash // of the compressed bytes, and of the tar

	encoding encoding
	prefix   string // without the leading "/"
	seen     map[string]byte
	Package
	// toc is the zTOC of the layer after close; nil if it was not recorded.
	toc *ztoc.Ztoc
}

func newTarball(out io.Writer, prefix string, c encoding) (*tarball, error) {
	t := &tarball{sum: sha256.New(), raw: sha256.New(), prefix: strings.TrimPrefix(prefix, "/"), seen: map[string]byte{}, encoding: c}
	t.packed = &counter{out: io.MultiWriter(out, t.sum)}
	var err error
	t.packer, err = c.packer(t.packed)
	to := []io.Writer{t.packer}
	if !c.isErofs() { // its diff ID is not the digest of the tar
		to = append(to, t.raw)
	}
	if c.copy != nil {
		to = append(to, c.copy)
	}
	t.tar = tar.NewWriter(io.MultiWriter(to...))
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

// entry writes an entry that is no folder, after its parent folders.
func (t *tarball) entry(h *tar.Header, content io.Reader) error {
	if err := t.folder(path.Dir(h.Name)); err != nil {
		return err
	}
	if err := checkName(h.Name); err != nil {
		return err
	}
	if t.seen[h.Name] != 0 {
		return fault.Invalid.Newf("%.200q is both a folder and a file, or occurs twice", h.Name)
	}
	t.seen[h.Name] = h.Typeflag
	if err := t.header(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.CopyBuffer(t.tar, struct{ io.Reader }{content}, t.packer.piece)
	if errors.Is(err, tar.ErrWriteTooLong) {
		return fmt.Errorf("%s is longer than its stated size: %w", h.Name, err)
	}
	return err
}

// folder writes a folder after its parents.
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
	if err := checkName(name); err != nil {
		return err
	}
	t.seen[name] = tar.TypeDir
	return t.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
}

// header writes a header.
func (t *tarball) header(h *tar.Header) error {
	if err := t.tar.WriteHeader(h); err != nil {
		return err
	}
	return t.packer.header(h)
}

// checkName rejects names that delete files of lower layers instead of creating one. A
// package must not change files of other packages or of the base image.
func checkName(name string) error {
	if layertar.IsWhiteout(path.Base(name)) {
		return fault.Invalid.Newf("it has the file %s, whose name would delete files of other layers (it begins with .wh.); remove the package from the environment, or have its files renamed",
			fault.Quote(name))
	}
	return nil
}

// close completes the layer and returns its description.
func (t *tarball) close() (Package, error) {
	if err := errors.Join(t.tar.Close(), t.packer.Close()); err != nil {
		return Package{}, err
	}
	trailer, annotations := t.packer.table()
	_, _ = t.raw.Write(trailer)
	t.toc = t.packer.ztoc()
	diffID := cmp.Or(t.packer.diffID(), digest.NewDigest(digest.SHA256, t.raw))
	t.encoding.release(t.packer)
	t.Layer = Layer{
		MediaType: t.encoding.mediaType(), Digest: digest.NewDigest(digest.SHA256, t.sum), Size: t.packed.n, DiffID: diffID, Annotations: annotations,
	}
	return t.Package, nil
}
