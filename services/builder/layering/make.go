package layering

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/artifact"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
)

// Maker makes the layers of environments. Safe for concurrent use.
type Maker struct {
	// Fetch gets artifacts; Store keeps what is made of them.
	Fetch *Fetcher
	Store Store
	// Scope is who the layers are for, where Fetch shows a login: they are nobody else's,
	// though others may know what a record says. "" is everybody.
	Scope string
	// Scratch is the folder for what cannot be held in memory; "" is the system's.
	Scratch string
	// Compression of layers; "" is Gzip.
	Compression Compression
	// AtOnce is how many packages are fetched and laid at a time; 0 is 2. Each takes
	// some MiB, and as much more as its compression reaches back.
	AtOnce int
	// Share, where it is not nil, has one of several workers make what they want at the
	// same moment.
	Share *Share
	// Known is called with the number of layers that are there, and of those that have
	// to be made, before the first is; Made with each that was, here or by another worker.
	// May be nil.
	Known func(there, missing int)
	Made  func(rec conda.Record, p Package)
}

// Packages answers the layer of each record of an environment, in their order;
// those that are not known are made, which needs their artifacts.
func (m *Maker) Packages(ctx context.Context, records []conda.Record) ([]Package, error) {
	python, err := conda.PythonOf(records)
	if err != nil {
		return nil, err
	}
	out, missing := make([]Package, len(records)), []int(nil)
	for i, rec := range records {
		key, _, err := m.place(rec, python)
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
	w := &wants{Maker: m, records: records, python: python, packages: out}
	later, err := w.have(ctx, missing, false)
	if err != nil || len(later) == 0 {
		return out, err
	}
	if m.Share.Waits != nil {
		m.Share.Waits(len(later))
	}
	_, err = w.have(ctx, later, true)
	return out, err
}

// wants are the packages of an environment while their layers are made.
type wants struct {
	*Maker
	records  []conda.Record
	python   conda.Python
	packages []Package
}

// have has the layers of some packages made, some at a time, and answers those that
// other workers make; with wait it waits for them.
func (w *wants) have(ctx context.Context, which []int, wait bool) (later []int, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(w.AtOnce, 2))
	for _, i := range which {
		g.Go(func() error {
			p, err := w.shared(ctx, w.records[i], w.python, wait)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, errElsewhere) {
				later = append(later, i)
				return nil
			}
			if w.packages[i] = p; err == nil && w.Made != nil {
				w.Made(w.records[i], p)
			}
			return err
		})
	}
	err = g.Wait()
	slices.Sort(later)
	return later, err
}

func (m *Maker) place(rec conda.Record, python conda.Python) (conda.LayerKey, artifact.Place, error) {
	at := placeOf(rec, python, m.Scratch)
	key, err := rec.LayerKey(python, string(m.compression()), m.Scope)
	return key, at, err
}

func (m *Maker) compression() Compression {
	return cmp.Or(m.Compression, Gzip)
}

// one makes the layer of a package.
func (m *Maker) one(ctx context.Context, rec conda.Record, python conda.Python) (Package, error) {
	key, at, err := m.place(rec, python)
	if err != nil {
		return Package{}, err
	}
	return m.Store.Keep(ctx, key, func(out io.Writer) (Package, error) {
		file, size, err := m.Fetch.Fetch(ctx, rec)
		if err != nil {
			return Package{}, err
		}
		defer func() { _ = file.Close() }()
		a, err := artifact.Open(ctx, file, size, rec.FileName)
		if err != nil {
			return Package{}, err
		}
		return Lay(ctx, a, rec, at, m.compression(), out)
	})
}

// Layers are the layers of an environment, lowest first: at most
// limits.CondaLayers. The packages are those of the records, in their order.
func (m *Maker) Layers(ctx context.Context, records []conda.Record, packages []Package) ([]Layer, error) {
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
