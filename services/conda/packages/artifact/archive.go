package artifact

import (
	"archive/tar"
	"archive/zip"
	"compress/bzip2"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// openZip finds the two archives of a .conda. Members with other names are reserved for
// later versions of the format.
func (a *Artifact) openZip() error {
	z, err := zip.NewReader(&budget{in: a.in, left: limits.ArtifactDirectory}, a.size)
	if err != nil {
		return fault.Invalid.New("it is no zip archive, or one with a directory of more than a MiB", err)
	}
	for _, f := range z.File {
		into := &a.content
		switch {
		case !strings.HasSuffix(f.Name, ".tar.zst"):
			continue
		case strings.HasPrefix(f.Name, "info-"):
			into = &a.info
		case !strings.HasPrefix(f.Name, "pkg-"):
			continue
		}
		if *into != nil {
			return invalid("it has two archives of the kind of %s", clip(f.Name))
		}
		if *into, err = a.member(f); err != nil {
			return err
		}
	}
	if a.info == nil {
		return invalid("it has no info-….tar.zst")
	}
	return nil
}

// budget limits the bytes that are read from a zip's directory, which may state any length.
type budget struct {
	in   io.ReaderAt
	left int64
}

var errDirectory = errors.New("the directory is too long")

func (b *budget) ReadAt(p []byte, at int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errDirectory
	}
	return b.in.ReadAt(p, at)
}

// member returns the stored content of a zip member.
func (a *Artifact) member(f *zip.File) (*io.SectionReader, error) {
	at, err := f.DataOffset()
	if err != nil || f.CompressedSize64 > uint64(a.size) {
		return nil, fault.Invalid.New("its zip archive is malformed", err)
	}
	if f.Method != zip.Store {
		return nil, invalid("%s is compressed twice", clip(f.Name))
	}
	return io.NewSectionReader(a.in, at, int64(f.CompressedSize64)), nil
}

// archive opens one of the artifact's tars at its beginning.
func (a *Artifact) archive(in *io.SectionReader) (io.Reader, func(), error) {
	if in == nil {
		return bzip2.NewReader(io.NewSectionReader(a.in, 0, a.size)), func() {}, nil
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, nil, err
	}
	d, err := decoder(in)
	if err != nil {
		return nil, nil, err
	}
	return d, func() {
		if d.Reset(nil) == nil {
			decoders.Put(d)
		}
	}, nil
}

// decoders holds unused decoders. Each has a window, of 8 MiB for most artifacts, whose
// allocation takes longer than reading a small artifact.
//
//nolint:gochecknoglobals // nobody can tell one from a new one
var decoders sync.Pool // of *zstd.Decoder

func decoder(in io.Reader) (*zstd.Decoder, error) {
	if d, ok := decoders.Get().(*zstd.Decoder); ok {
		return d, d.Reset(in)
	}
	return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(limits.ArtifactWindow))
}

// A visit is called with each entry of an archive and its clean name; content is a file's
// content. errStop ends the walk.
type visit func(h *tar.Header, name string, content io.Reader) error

var errStop = errors.New("enough was read")

// walk visits all entries of an archive from its beginning. A nil archive is the artifact
// itself, a .tar.bz2.
func (a *Artifact) walk(ctx context.Context, from *io.SectionReader, show visit) error {
	in, done, err := a.archive(from)
	if err != nil {
		return err
	}
	defer done()
	m := &meter{in: in, packed: a.size}
	entries := &entries{meter: m, tar: tar.NewReader(m)}
	for range limits.ArtifactEntries {
		h, err := entries.next(ctx)
		if h == nil {
			return err
		}
		name, err := entry(h)
		if err == nil {
			err = show(h, name, content{entries.tar})
		}
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return invalid("it has more than %d entries", limits.ArtifactEntries)
}

// entries reads the entries of one archive in order and enforces their limits.
type entries struct {
	meter *meter
	tar   *tar.Reader
	names int // total length of all names in bytes
}

// next returns the next entry, and nil at the end or on error.
func (e *entries) next(ctx context.Context) (*tar.Header, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := e.tar.Next()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(err)
	}
	if err := e.meter.checkSize(h); err != nil {
		return nil, err
	}
	if e.names += len(h.Name) + len(h.Linkname); e.names > 2*limits.ArtifactNames { // a hard link stores both names
		return nil, invalid("it has names of more than %d MiB", 2*limits.ArtifactNames>>20)
	}
	return h, nil
}

// entry returns the clean name of an entry, and "" for an entry to ignore. It rejects types
// of entries that packages must not contain.
func entry(h *tar.Header) (string, error) {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeGNUSparse:
		return local(h.Name)
	case tar.TypeXGlobalHeader:
		return "", nil
	}
	return "", invalid("%s is neither a file, a folder nor a link", clip(h.Name))
}

// local returns a clean path below the prefix.
func local(name string) (string, error) {
	if name == "" || len(name) > limits.ArtifactPath || strings.ContainsRune(name, 0) {
		return "", invalid("it has a file without a proper name: %s", clip(name))
	}
	if path.IsAbs(name) || strings.Contains("/"+name+"/", "/../") {
		return "", invalid("the path %s leads out of the package", clip(name))
	}
	return path.Clean(name), nil
}

// content reads a file of an archive. Read errors mean that the archive is broken.
type content struct{ in io.Reader }

func (c content) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreadable(err)
	}
	return n, err
}

// unreadable reports that an archive is broken, unless err is already a fault.
func unreadable(err error) error {
	if _, ok := fault.As(err); ok || errors.As(err, new(*fs.PathError)) {
		return err
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return invalid("its compression reaches back more than %d MiB", limits.ArtifactWindow>>20)
	}
	return fault.Invalid.New("its archive is broken", err)
}
