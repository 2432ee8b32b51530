package layering

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/erofslayer"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ztoc"
)

// merge writes one layer of several packages, in their order. The later package wins a path
// that two of them have.
func merge(ctx context.Context, from Store, members []Package, c encoding, out io.Writer) (Package, *ztoc.Ztoc, error) {
	t, err := newTarball(out, spec.Prefix, c)
	if err != nil {
		return Package{}, nil, err
	}
	owner := map[string]int{}
	for i, p := range members {
		for _, name := range p.Paths {
			owner[name] = i
		}
	}
	for i, p := range members {
		if err := t.copyEntries(ctx, from, p, func(name string) bool { return owner[name] == i }); err != nil {
			return Package{}, nil, err
		}
		t.Installed += p.Installed
	}
	all, err := t.close()
	all.By = spec.GroupHistory(len(members))
	return all, t.toc, err
}

// copyEntries copies the entries of a package that keeps accepts.
func (t *tarball) copyEntries(ctx context.Context, from Store, p Package, keeps func(name string) bool) error {
	blob, err := from.Open(ctx, p.Layer)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }()
	raw, done, err := p.unpacked(blob)
	if err != nil {
		return err
	}
	defer done()
	newNames := p.newNames(keeps)
	for r := tar.NewReader(raw); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.Join(ctx.Err(), t.rewrite(h, r, keeps, newNames))
		}
		if err != nil {
			return fmt.Errorf("reading the layer %s: %w", p.Digest, err)
		}
	}
}

// rewrite writes an entry of another layer.
func (t *tarball) rewrite(h *tar.Header, content io.Reader, keeps func(string) bool, newNames map[string]string) error {
	if h.Typeflag == tar.TypeDir {
		return t.folder(strings.TrimSuffix(h.Name, "/"))
	}
	name := t.below(h.Name)
	newName, lost := newNames[name]
	switch {
	case lost && newName != "": // the file is written under another of its names
		h.Name = path.Join(t.prefix, newName)
	case !keeps(name):
		return nil
	case h.Typeflag == tar.TypeLink:
		target := t.below(h.Linkname)
		if newName, lost := newNames[target]; lost {
			if newName == name {
				return nil // already written in its target's place
			}
			h.Linkname = path.Join(t.prefix, newName)
		}
	}
	return t.entry(&tar.Header{Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Mode: h.Mode, ModTime: h.ModTime, Size: h.Size}, content)
}

func (t *tarball) below(name string) string { return strings.TrimPrefix(name, t.prefix+"/") }

// newNames maps the first name of a file to its new first name, for files that lose their
// first name and keep another.
func (p Package) newNames(keeps func(name string) bool) map[string]string {
	out := map[string]string{}
	for _, name := range p.Paths {
		target, is := p.HardLinks[name]
		if !is || keeps(target) {
			continue
		}
		if out[target] == "" && keeps(name) {
			out[target] = name
		}
	}
	return out
}

// unpacked returns the tar of the package's layer.
func (p Package) unpacked(blob io.Reader) (io.Reader, func(), error) {
	raw, done, err := unpacked(p.Layer, blob)
	if err != nil || !oci.IsErofs(p.descriptor()) {
		return raw, done, err
	}
	prefix := strings.TrimPrefix(spec.Prefix, "/") + "/"
	tarball := erofslayer.Tar(raw, func(name string) bool { return p.HardLinks[strings.TrimPrefix(name, prefix)] == "" })
	return tarball, func() { _ = tarball.Close(); done() }, nil
}

// unpacked returns a layer without its compression: a tar or an EROFS image.
func unpacked(l Layer, blob io.Reader) (io.Reader, func(), error) {
	switch l.MediaType {
	case oci.TypeErofsLayer:
		return blob, func() {}, nil
	case ocispec.MediaTypeImageLayerZstd, oci.TypeErofsLayerZstd:
		d, err := zstd.NewReader(blob, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	}
	z, err := gzip.NewReader(blob)
	return z, func() {}, err
}
