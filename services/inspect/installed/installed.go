// Package installed finds the packages that are installed in an image by the records that package
// managers keep there, such as <prefix>/conda-meta/*.json of conda or /var/lib/dpkg/status of dpkg. It
// reads the layers of the image as streams, lowest first, and applies whiteouts and overridden files as
// specified by the OCI image specification (layer.md). Layers are untrusted: everything is bounded
// by the package limits. Symbolic links are not followed.
package installed

import (
	"archive/tar"
	"cmp"
	"context"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

// A Package is a package that is installed in an image.
type Package struct {
	Record
	// Kind is that of its manager.
	Kind Kind
	// Path is the absolute path of the file with the record, in valid UTF-8.
	Path string
	// Layer is the digest of the layer with the record.
	Layer string
}

// Prefix returns the absolute path of the environment of a Conda package, e.g. "/opt/conda".
func (p Package) Prefix() string { return path.Dir(path.Dir(p.Path)) }

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
	budget   *Budget
	managers []Manager
	root     *node
}

// NewImage returns an image without layers. It collects the records of the given managers.
func NewImage(b *Budget, managers ...Manager) *Image {
	return &Image{budget: b, managers: managers, root: &node{}}
}

// Clone returns an image with the records of m, to which layers can be added independently of m. The records
// count for the budget b. Safe for concurrent use as long as no layers are added to m.
func (m *Image) Clone(b *Budget) (*Image, error) {
	var err error
	m.root.walk("", func(name string, f *file) {
		err = cmp.Or(err, b.charge(int64(len(name))))
		for _, r := range f.records {
			err = cmp.Or(err, b.add(r))
		}
	})
	return &Image{budget: b, managers: m.managers, root: m.root.clone()}, err
}

// managerOf returns the manager of the records at a path, at most limits.ImageRecordDepth folders deep; nil
// if it has none.
func (m *Image) managerOf(name string) *Manager {
	if strings.Count(name, "/") > limits.ImageRecordDepth {
		return nil
	}
	i := slices.IndexFunc(m.managers, func(of Manager) bool { return of.isRecord(name) })
	if i < 0 {
		return nil
	}
	return &m.managers[i]
}

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
	manager := m.managerOf(name)
	if manager == nil {
		return nil
	}
	f, err := m.read(own, layer, manager, h, content)
	if err != nil || f == nil {
		return err
	}
	if err := m.budget.charge(int64(len(name))); err != nil {
		return err
	}
	own.put(name, f)
	return nil
}

// charge counts bytes of names and records.
func (b *Budget) charge(n int64) error {
	if b.bytes += n; b.bytes > limits.ImageLocks {
		return layertar.Invalidf("belongs to an image whose records of installed packages have more than %d MiB of names and addresses", limits.ImageLocks>>20)
	}
	return nil
}

// add counts a record, and reports whether it may be kept.
func (b *Budget) add(r Record) error {
	if b.records++; b.records > limits.ImageRecords {
		return layertar.Invalidf("belongs to an image with more than %d records of installed packages", limits.ImageRecords)
	}
	return b.charge(r.size())
}

// read returns the records of an entry. Records that cannot be parsed do not hide the others. read returns
// nil if the manager does not need the file.
func (m *Image) read(own *node, layer string, manager *Manager, h *tar.Header, content io.Reader) (*file, error) {
	f := &file{layer: layer, kind: manager.Kind, unreadable: true}
	var err error
	switch {
	case h.Typeflag == tar.TypeLink:
		if same := own.find(cleanPath(h.Linkname)); same != nil && same.file != nil {
			f.unreadable = same.file.unreadable
			err = m.keep(f, slices.Values(same.file.records))
		}
	case manager.parse == nil: // only its existence is of interest
		err = m.keep(f, slices.Values([]Record{{Name: string(manager.Kind), Version: "unknown"}}))
		f.unreadable = false
	case layertar.IsFile(h) && h.Size <= limits.ImageRecord:
		var raw []byte
		if raw, err = io.ReadAll(content); err == nil {
			f.unreadable = false
			err = m.keep(f, func(yield func(Record) bool) { manager.parse(raw, yield) })
		}
	}
	if err != nil || manager.optional && len(f.records) == 0 {
		return nil, err
	}
	return f, nil
}

// keep stores the valid ones of records.
func (m *Image) keep(f *file, records iter.Seq[Record]) error {
	for r := range records {
		if !r.isValid() {
			r, f.unreadable = Record{}, true
		}
		if err := m.budget.add(r); err != nil {
			return err
		}
		if r.Name != "" {
			f.records = append(f.records, r.clone())
		}
	}
	return nil
}

// AddRecords adds a layer of records that are known without reading it, by path without leading slash, such
// as those of a lock. Records of lower layers at the same paths are replaced.
func (m *Image) AddRecords(kind Kind, layer string, records map[string]Record) error {
	for name, r := range records {
		if err := m.budget.add(r); err != nil {
			return err
		}
		m.root.put(name, &file{kind: kind, layer: layer, records: []Record{r}})
	}
	return nil
}

// Packages returns the installed packages, sorted by manager, folder of the record and name, and the paths
// of the files with records that cannot be read, sorted.
func (m *Image) Packages() (packages []Package, unreadable []string) {
	m.root.walk("", func(name string, f *file) {
		name = strings.ToValidUTF8(name, "\uFFFD")
		if f.unreadable {
			unreadable = append(unreadable, name)
		}
		for _, r := range f.records {
			packages = append(packages, Package{Record: r, Kind: f.kind, Path: name, Layer: f.layer})
		}
	})
	slices.SortFunc(packages, func(a, b Package) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(path.Dir(a.Path), path.Dir(b.Path)), a.compare(b.Record), strings.Compare(a.Path, b.Path))
	})
	slices.Sort(unreadable)
	return packages, unreadable
}

// Size returns the approximate memory in bytes that the packages of an image use.
func (m *Image) Size() (n int64) {
	m.root.walk("", func(name string, f *file) {
		for _, r := range f.records {
			n += r.size() + int64(len(name)) + recordSize
		}
	})
	return n
}

// recordSize is the approximate size in bytes of a Package without its strings.
const recordSize = 300

// cleanPath returns the path of an entry relative to the root, without leading and trailing slashes; ""
// for the root. "../" does not lead above the root.
func cleanPath(name string) string { return path.Clean("/" + name)[1:] }
