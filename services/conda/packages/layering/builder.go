package layering

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
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

// Packages returns the layer of each record of an environment, in their order. It builds
// the missing ones, for which it fetches their artifacts.
func (m *Builder) Packages(ctx context.Context, records []spec.Record) ([]Package, error) {
	python, err := spec.PythonOf(records)
	if err != nil {
		return nil, err
	}
	out, missing := make([]Package, len(records)), []int(nil)
	for i, rec := range records {
		key, _, err := m.locate(rec, python)
		if err != nil {
			return nil, err
		}
		out[i], err = m.Store.Package(ctx, key)
		if errors.Is(err, fault.NotFound) {
			missing = append(missing, i)
		} else if err != nil {
			return nil, err
		}
	}
	if m.Known != nil {
		m.Known(len(records)-len(missing), len(missing))
	}
	w := &batch{Builder: m, records: records, python: python, packages: out}
	later, err := w.buildAll(ctx, missing, false)
	if err != nil || len(later) == 0 {
		return out, err
	}
	if m.Share.Waits != nil {
		m.Share.Waits(len(later))
	}
	_, err = w.buildAll(ctx, later, true)
	return out, err
}

// batch are the packages of an environment whose layers are being built.
type batch struct {
	*Builder
	records  []spec.Record
	python   spec.Python
	packages []Package
}

// buildAll builds the layers of some packages, several at a time, and returns those that other
// workers are building. If wait is set, it waits for them instead.
func (w *batch) buildAll(ctx context.Context, which []int, wait bool) (later []int, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(w.Concurrency, 2))
	for _, i := range which {
		g.Go(func() error {
			p, err := w.shared(ctx, w.records[i], w.python, wait)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, errElsewhere) {
				later = append(later, i)
				return nil
			}
			if w.packages[i] = p; err == nil && w.OnBuilt != nil {
				w.OnBuilt(w.records[i], p)
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
	return m.Store.Keep(ctx, key, func(out io.Writer) (Package, error) {
		file, size, err := m.Fetch.Fetch(ctx, rec)
		if err != nil {
			return Package{}, err
		}
		defer func() { _ = file.Close() }()
		if rec.IsWheel() {
			return writeWheel(ctx, file, size, rec, at, m.compression(), out)
		}
		a, err := artifact.Open(ctx, file, size, rec.FileName)
		if err != nil {
			return Package{}, err
		}
		return WriteLayer(ctx, a, rec, at, m.compression(), out)
	})
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
	rest, err := m.Store.Keep(ctx, groupKey(members, m.compression()), func(to io.Writer) (Package, error) {
		return merge(ctx, m.Store, members, m.compression(), to)
	})
	return append(out, rest.Layer), err
}
