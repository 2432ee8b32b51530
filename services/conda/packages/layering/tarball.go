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
	"slipway.dev/services/mount/pack"
)

// tarball writes a layer. Each folder is written once, before its content, and is the same
// in every layer, so that the order of layers does not matter for folders. For Mounted it writes the same
// entries to a blob instead.
type tarball struct {
	tar      *tar.Writer
	blob     *pack.Writer // instead of tar and packer; nil for a layer
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
	if c.Compression == Mounted {
		t.blob = pack.NewWriter(t.packed)
		return t, nil
	}
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
	if t.blob != nil {
		return t.pack(h, content)
	}
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
	if t.blob != nil {
		return t.pack(&tar.Header{Typeflag: tar.TypeDir, Name: name}, nil)
	}
	return t.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
}

// pack writes an entry to the blob, as if it had been read from a tar.
func (t *tarball) pack(h *tar.Header, content io.Reader) error {
	if !strings.HasPrefix(h.Name, t.prefix+"/") {
		return nil // a parent of the prefix
	}
	h.ModTime = h.ModTime.Round(time.Second)
	if err := addToBlob(t.blob, t.below(h.Name), h, content); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	if n, err := content.Read(make([]byte, 1)); n > 0 || err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is longer than its stated size: %w", h.Name, cmp.Or(err, tar.ErrWriteTooLong))
	}
	return nil
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
	if t.blob != nil {
		return t.closeBlob()
	}
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

// closeBlob completes the blob and returns its description.
func (t *tarball) closeBlob() (Package, error) {
	made, err := t.blob.Close()
	if err != nil {
		return Package{}, err
	}
	t.Layer = Layer{MediaType: pack.MediaType, Digest: digest.NewDigest(digest.SHA256, t.sum), Size: t.packed.n, DiffID: digest.FromBytes(made.Index)}
	return t.Package, nil
}
