package layering

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/singleflight"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
)

// Store keeps layers, and what is known of them, for the next image. What it
// loses is made again, with the same bytes.
type Store interface {
	// Package answers what is known under a key; fault.NotFound when nothing is, or the
	// layer is gone.
	Package(ctx context.Context, key conda.LayerKey) (Package, error)
	// Open begins to read a layer; fault.NotFound when it is gone.
	Open(ctx context.Context, l Layer) (io.ReadCloser, error)
	// Keep takes a layer that write makes, unless it is there by then. Who asks for the
	// same one at the same time waits for it.
	Keep(ctx context.Context, key conda.LayerKey, write func(out io.Writer) (Package, error)) (Package, error)
}

// Folder is a Store in a folder of a worker, for it alone: the blobs of layers by
// digest, and a document for each package that names one.
//
// The documents are beside the blobs, and not in a database, because they are of
// no use without them, may be lost with them, and come again with the same
// content wherever a worker makes them. What workers share is the registry: there
// the same bytes are one blob, whoever made them. Safe for concurrent use.
type Folder struct {
	dir  string
	once singleflight.Group
}

// NewFolder keeps layers in dir, which it makes. Halves of files that a killed
// worker left are removed.
func NewFolder(dir string) (*Folder, error) {
	f := &Folder{dir: dir}
	if err := os.RemoveAll(f.path("tmp")); err != nil {
		return nil, err
	}
	for _, sub := range []string{"tmp", "blobs", "packages"} {
		if err := os.MkdirAll(f.path(sub), 0o700); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *Folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// Package implements Store.
func (f *Folder) Package(_ context.Context, key conda.LayerKey) (Package, error) {
	p, err := readPackage(f.path("packages", string(key)))
	if err == nil {
		err = f.has(p.Layer)
	}
	if err != nil {
		// Whatever is wrong with it, it can be made again.
		return Package{}, fault.NotFound.New("The layer is not known", err)
	}
	f.asked(p.Layer)
	return p, nil
}

// has is an error when a layer's blob is gone, or was cut.
func (f *Folder) has(l Layer) error {
	if err := l.Digest.Validate(); err != nil {
		return err
	}
	info, err := os.Stat(f.path("blobs", l.Digest.Encoded()))
	if err == nil && info.Size() != l.Size {
		err = fmt.Errorf("%s has %d bytes instead of %d", l.Digest, info.Size(), l.Size)
	}
	return err
}

// Open implements Store.
func (f *Folder) Open(_ context.Context, l Layer) (io.ReadCloser, error) {
	if err := l.Digest.Validate(); err != nil {
		return nil, err
	}
	blob, err := os.Open(f.path("blobs", l.Digest.Encoded()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.NotFound.New("The layer is not known", err)
	}
	return blob, err
}

// Keep implements Store. Who waits for another that was cancelled makes the layer
// itself.
func (f *Folder) Keep(ctx context.Context, key conda.LayerKey, write func(out io.Writer) (Package, error)) (Package, error) {
	for {
		mine := false
		v, err, _ := f.once.Do(string(key), func() (any, error) {
			mine = true
			if p, err := f.Package(ctx, key); err == nil {
				return p, nil
			}
			return f.keep(key, write)
		})
		cancelled := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		if cancelled && !mine && ctx.Err() == nil {
			continue
		}
		p, _ := v.(Package)
		return p, err
	}
}

// keep makes a layer: the blob is there before anything names it.
func (f *Folder) keep(key conda.LayerKey, write func(out io.Writer) (Package, error)) (Package, error) {
	var p Package
	blob, err := f.temporary(func(out io.Writer) (err error) {
		p, err = write(out)
		return err
	})
	if err != nil {
		return Package{}, err
	}
	if err := os.Rename(blob, f.path("blobs", p.Digest.Encoded())); err != nil {
		return Package{}, err
	}
	document, err := f.temporary(func(out io.Writer) error {
		z := gzip.NewWriter(out)
		return errors.Join(json.NewEncoder(z).Encode(p), z.Close())
	})
	if err != nil {
		return Package{}, err
	}
	return p, os.Rename(document, f.path("packages", string(key)))
}

// temporary writes a file that has no name yet that counts; there is none after an
// error.
func (f *Folder) temporary(write func(out io.Writer) error) (string, error) {
	file, err := os.CreateTemp(f.path("tmp"), "")
	if err != nil {
		return "", err
	}
	err = write(file)
	if err == nil {
		err = file.Sync() // a machine that loses its power keeps no empty blob under a digest
	}
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}

func readPackage(file string) (p Package, err error) {
	in, err := os.Open(file)
	if err != nil {
		return p, err
	}
	defer func() { _ = in.Close() }()
	z, err := gzip.NewReader(in)
	if err != nil {
		return p, err
	}
	return p, json.NewDecoder(z).Decode(&p)
}
