// Package condameta finds the Conda packages that are installed in an image by the records that
// conda, mamba, micromamba, pixi and rattler write to <prefix>/conda-meta/*.json. It reads the
// layers of the image as streams, lowest first, and applies whiteouts and overridden files as
// specified by the OCI image specification (layer.md). Layers are untrusted: everything is bounded
// by the package limits. Symbolic links are not followed.
package condameta

import (
	"archive/tar"
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

// folder is the name of the folder of records in an environment.
const folder = "conda-meta"

// An Installed is a package that is installed in an image.
type Installed struct {
	Record
	// Prefix is the absolute path of the environment, e.g. "/opt/conda", in valid UTF-8.
	Prefix string
	// Layer is the digest of the layer with the record.
	Layer string
}

// A Budget bounds the records of all images that are read with it. Use NewBudget to create one.
type Budget struct {
	in      *layertar.Reader
	records int
	bytes   int64
}

// NewBudget returns the budget of one call.
func NewBudget() *Budget {
	return &Budget{in: layertar.NewReader(layertar.Limits{Bytes: limits.ListedBytes, Entries: limits.ListedEntries, Image: true})}
}

// An Image collects the records of one image. Use NewImage to create one.
type Image struct {
	budget *Budget
	root   *node
}

// NewImage returns an image without layers.
func NewImage(b *Budget) *Image { return &Image{budget: b, root: &node{}} }

// AddLayer reads the next layer, whose name is its digest. It returns a *layertar.LayerError if the
// layer is invalid or a limit is exceeded; other errors come from the layer's Open or Unpacked, or
// from ctx.
func (m *Image) AddLayer(ctx context.Context, l layertar.Layer) error {
	// The layer is collected separately, since its whiteouts only apply to lower layers.
	own := &node{}
	err := m.budget.in.Each(ctx, l, func(_ int, h *tar.Header, content io.Reader) error {
		return m.entry(own, l.Name, h, content)
	})
	if err != nil {
		return err
	}
	m.root.merge(own)
	return nil
}

// entry applies an entry of a layer.
func (m *Image) entry(own *node, layer string, h *tar.Header, content io.Reader) error {
	if len(h.Name) > limits.ListedPath || len(h.Linkname) > limits.ListedPath {
		return layertar.Invalidf("has a path or a link of more than %d bytes", limits.ListedPath)
	}
	name := cleanPath(h.Name)
	dir, base := path.Split(name)
	if layertar.IsWhiteout(base) {
		hidden, all, err := layertar.ParseWhiteout(base)
		switch {
		case err != nil:
			return err
		case all:
			m.root.empty(cleanPath(dir))
		case hidden != "":
			m.root.remove(dir + hidden)
		}
		return nil
	}
	if h.Typeflag == tar.TypeDir {
		m.root.removeFile(name)
		own.removeFile(name)
		return nil
	}
	m.root.remove(name)
	own.remove(name)
	if !isRecord(name) {
		return nil
	}
	if m.budget.records++; m.budget.records > limits.ImageRecords {
		return layertar.Invalidf("belongs to an image with more than %d records of Conda packages", limits.ImageRecords)
	}
	f, err := m.read(own, layer, h, content)
	if err != nil {
		return err
	}
	if m.budget.bytes += f.record.size() + int64(len(name)); m.budget.bytes > limits.ImageLocks {
		return layertar.Invalidf("belongs to an image whose records of Conda packages have more than %d MiB of names and addresses", limits.ImageLocks>>20)
	}
	own.put(name, f)
	return nil
}

// read returns the record of an entry. A record that cannot be parsed is kept as unreadable, so that it
// does not hide the others.
func (m *Image) read(own *node, layer string, h *tar.Header, content io.Reader) (*file, error) {
	f := &file{layer: layer}
	switch {
	case h.Typeflag == tar.TypeLink:
		if same := own.find(cleanPath(h.Linkname)); same != nil && same.file != nil {
			f.record, f.ok = same.file.record, same.file.ok
		}
	case layertar.IsFile(h) && h.Size <= limits.ImageRecord:
		raw, err := io.ReadAll(content)
		if err != nil {
			return nil, err
		}
		f.record, f.ok = parse(raw)
	}
	return f, nil
}

// Packages returns the installed packages, sorted by prefix and name, and the paths of the records that
// cannot be read, sorted.
func (m *Image) Packages() (packages []Installed, unreadable []string) {
	m.root.walk("", func(name string, f *file) {
		name = strings.ToValidUTF8(name, "\uFFFD")
		if !f.ok {
			unreadable = append(unreadable, name)
			return
		}
		packages = append(packages, Installed{Record: f.record, Prefix: path.Dir(path.Dir(name)), Layer: f.layer})
	})
	slices.SortFunc(packages, func(a, b Installed) int {
		if c := strings.Compare(a.Prefix, b.Prefix); c != 0 {
			return c
		}
		return a.compare(b.Record)
	})
	slices.Sort(unreadable)
	return packages, unreadable
}

// isRecord reports whether a path is that of a record, at most limits.ImageRecordDepth folders deep.
func isRecord(name string) bool {
	return strings.HasSuffix(name, ".json") && path.Base(path.Dir(name)) == folder && strings.Count(name, "/") <= limits.ImageRecordDepth
}

// cleanPath returns the path of an entry relative to the root, without leading and trailing slashes; ""
// for the root. "../" does not lead above the root.
func cleanPath(name string) string { return path.Clean("/" + name)[1:] }
