package layering

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/ztoc"
)

// Builder creates the layers of environments. It is safe for concurrent use.
type Builder struct {
	// Fetch fetches artifacts; Store stores layers.
	Fetch *Fetcher
	Store Store
	// Scope restricts the layers to builders with the same scope, if Fetch sends a login.
	// Otherwise a client that knows a record could use its layer. "" means no restriction.
	Scope string
	// Scratch is the folder for temporary files; "" is the system's.
	Scratch string
	// Compression is the compression of layers; "" is Gzip.
	Compression Compression
	// Ztocs is set if the zTOCs of layers are recorded while they are compressed: Soci then does not
	// have to read them. They are stored with the layers.
	Ztocs bool
	// Copies, if not nil, returns the receiver of the tar of a layer that is going to be built.
	Copies func(ctx context.Context) Copy
	// Concurrency is the number of packages that are fetched and processed concurrently; 0 is 2.
	// Each needs some MiB of memory in addition to its decompression window.
	Concurrency int
	// Share, if not nil, shares layers with other workers.
	Share *Share
	// Known, if not nil, is called before the first layer is built, with the number of
	// existing and of missing layers. OnBuilt, if not nil, is called with each layer that was
	// built, here or by another worker.
	Known   func(there, missing int)
	OnBuilt func(rec spec.Record, p Package)
}

// A Copy receives the tar of a layer while the layer is built. Its Write returns no errors.
type Copy interface {
	io.Writer
	// Close ends the tar of the layer with a digest, or of none that failed if the digest is "".
	Close(layer digest.Digest) error
}

// Packages returns the layer of each record of an environment, in their order. It builds
// the missing ones, for which it fetches their artifacts.
func (m *Builder) Packages(ctx context.Context, records []spec.Record) ([]Package, error) {
	python, err := spec.PythonOf(records)
	if err != nil {
		return nil, err
	}
	w := &batch{Builder: m, known: m.Known, onBuilt: m.OnBuilt}
	for _, rec := range records {
		key, _, err := m.locate(rec, python)
		if err != nil {
			return nil, err
		}
		w.items = append(w.items, item{key: key, rec: rec, mediaType: m.compression().mediaType(), build: func(ctx context.Context) (Package, error) {
			return m.layer(ctx, rec, python)
		}})
	}
	return w.build(ctx)
}

// An item is a layer, or another blob of a package, that is built if it does not exist.
type item struct {
	key       spec.LayerKey
	rec       spec.Record
	mediaType string
	// build builds it and stores it under the key.
	build func(ctx context.Context) (Package, error)
}

// batch are the items of an environment, in the order of its packages.
type batch struct {
	*Builder
	items    []item
	packages []Package
	known    func(there, missing int)         // see Builder.Known
	onBuilt  func(rec spec.Record, p Package) // see Builder.OnBuilt
	// skip, if not nil, reports whether the result of an item may be missing after an error.
	skip func(which int, err error) bool
}

// build returns the items, and builds the missing ones.
func (w *batch) build(ctx context.Context) ([]Package, error) {
	w.packages = make([]Package, len(w.items))
	var missing []int
	for i, it := range w.items {
		p, err := w.Store.Package(ctx, it.key)
		if w.packages[i] = p; errors.Is(err, fault.NotFound) {
			missing = append(missing, i)
		} else if err != nil {
			return nil, err
		}
	}
	if w.known != nil {
		w.known(len(w.items)-len(missing), len(missing))
	}
	later, err := w.buildAll(ctx, missing, false)
	if err != nil || len(later) == 0 {
		return w.packages, err
	}
	if w.Share.Waits != nil {
		w.Share.Waits(len(later))
	}
	_, err = w.buildAll(ctx, later, true)
	return w.packages, err
}

// buildAll builds some items, several at a time, and returns those that other workers are
// building. If wait is set, it waits for them instead.
func (w *batch) buildAll(ctx context.Context, which []int, wait bool) (later []int, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(w.Concurrency, 2))
	for _, i := range which {
		g.Go(func() error {
			p, err := w.shared(ctx, w.items[i], wait)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, errElsewhere) {
				later = append(later, i)
				return nil
			}
			if err != nil && w.skip != nil && w.skip(i, err) {
				return nil
			}
			if w.packages[i] = p; err == nil && w.onBuilt != nil {
				w.onBuilt(w.items[i].rec, p)
			}
			return err
		})
	}
	err = g.Wait()
	slices.Sort(later)
	return later, err
}

func (m *Builder) locate(rec spec.Record, python spec.Python) (spec.LayerKey, artifact.Place, error) {
	at := placeOf(rec, python, m.Scratch)
	if m.compression() == Mounted {
		key, err := m.blobKey(rec, python)
		return key, at, err
	}
	key, err := rec.LayerKey(python, string(m.compression()), m.Scope)
	return key, at, err
}

func (m *Builder) compression() Compression {
	return cmp.Or(m.Compression, Gzip)
}

// layer returns the layer of a package, and builds it if needed.
func (m *Builder) layer(ctx context.Context, rec spec.Record, python spec.Python) (Package, error) {
	key, at, err := m.locate(rec, python)
	if err != nil {
		return Package{}, err
	}
	return m.keep(ctx, key, func(c encoding, out io.Writer) (Package, *ztoc.Ztoc, error) {
		file, size, err := m.Fetch.Fetch(ctx, rec)
		if err != nil {
			return Package{}, nil, err
		}
		defer func() { _ = file.Close() }()
		if rec.IsWheel() {
			p, toc, err := writeWheel(ctx, file, size, rec, at, c, out)
			return p, toc, notMountable(rec.History(), err)
		}
		a, err := artifact.Open(ctx, file, size, rec.FileName)
		if err != nil {
			return Package{}, nil, err
		}
		p, toc, err := writeLayer(ctx, a, rec, at, c, out)
		return p, toc, notMountable(rec.History(), err)
	})
}

// keep stores a layer that write creates, unless it exists, and its zTOC if that was recorded.
func (m *Builder) keep(ctx context.Context, key spec.LayerKey, write func(c encoding, out io.Writer) (Package, *ztoc.Ztoc, error)) (Package, error) {
	var toc *ztoc.Ztoc
	store := func(recorded bool) (Package, error) {
		return m.Store.Keep(ctx, key, func(out io.Writer) (p Package, err error) {
			c := m.compression().encoding(recorded, m.Scratch)
			if m.Copies == nil {
				p, toc, err = write(c, out)
				return p, err
			}
			copied := m.Copies(ctx)
			c.copy = copied
			if p, toc, err = write(c, out); err != nil {
				p = Package{}
			}
			_ = copied.Close(p.Digest) // a layer does not depend on its copy
			return p, err
		})
	}
	p, err := store(m.Ztocs)
	if errors.Is(err, ztoc.ErrInvalid) { // the layer is too large for a zTOC
		p, err = store(false)
	}
	if err != nil || toc == nil || !soci.HasZtoc(p.descriptor()) {
		return p, err
	}
	_, err = m.Store.Keep(ctx, ztocKey(p.Digest), func(out io.Writer) (Package, error) {
		return writeZtoc(p.Layer, toc.Marshal(soci.Tool), out)
	})
	return p, err
}

// Layers returns the layers of an environment, lowest first: at most limits.CondaLayers.
// The packages are those of the records, in their order.
func (m *Builder) Layers(ctx context.Context, records []spec.Record, packages []Package) ([]Layer, error) {
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = r.Name
	}
	p, err := arrange(names, packages)
	if err != nil {
		return nil, err
	}
	var out []Layer
	for _, i := range p.alone {
		out = append(out, packages[i].Layer)
	}
	if len(p.rest) == 0 {
		return out, nil
	}
	if err := m.gather(ctx, records, packages, p.rest); err != nil {
		return nil, err
	}
	var members []Package
	for _, i := range p.rest {
		members = append(members, packages[i])
	}
	rest, err := m.keep(ctx, groupKey(members, m.compression()), func(c encoding, to io.Writer) (Package, *ztoc.Ztoc, error) {
		return merge(ctx, m.Store, members, c, to)
	})
	return append(out, rest.Layer), err
}
