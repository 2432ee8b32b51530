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

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/memo"
)

// Store caches layers and their descriptions. A lost layer is built again with the same
// bytes.
type Store interface {
	// Package returns the package stored under a key, or fault.NotFound if it is missing or
	// its layer was evicted. Callers must not change it.
	Package(ctx context.Context, key spec.LayerKey) (Package, error)
	// Open opens a layer, or returns fault.NotFound if it was evicted.
	Open(ctx context.Context, l Layer) (Blob, error)
	// Keep stores a layer that write creates, unless it exists. Concurrent calls for the
	// same key wait for the first.
	Keep(ctx context.Context, key spec.LayerKey, write func(out io.Writer) (Package, error)) (Package, error)
}

// A Blob is the open content of a layer.
type Blob interface {
	io.ReadCloser
	io.ReaderAt
}

// Folder is a Store in a folder of one worker: the blobs of layers by digest, and one
// document for each package, which names a blob.
//
// The documents are next to the blobs rather than in a database, because they are useless
// without them, may be lost with them, and are recreated with the same content. Workers
// share layers through the registry, where equal bytes are one blob. Safe for concurrent
// use.
type Folder struct {
	dir       string
	once      singleflight.Group
	documents *memo.Cache[spec.LayerKey, packageDocument]
}

// NewFolder creates dir and stores layers in it. It removes the partial files of a killed
// worker.
func NewFolder(dir string) (*Folder, error) {
	f := &Folder{dir: dir, documents: newDocuments()}
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
func (f *Folder) Package(_ context.Context, key spec.LayerKey) (Package, error) {
	p, err := f.document(key)
	if err == nil {
		err = f.verify(p.Layer)
	}
	if err != nil {
		// A damaged document can be created again.
		return Package{}, fault.NotFound.New("The layer is not known", err)
	}
	f.touch(p.Layer)
	return p, nil
}

// verify returns an error if a layer's blob is missing or truncated.
func (f *Folder) verify(l Layer) error {
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
func (f *Folder) Open(_ context.Context, l Layer) (Blob, error) {
	if err := l.Digest.Validate(); err != nil {
		return nil, err
	}
	blob, err := os.Open(f.path("blobs", l.Digest.Encoded()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.NotFound.New("The layer is not known", err)
	}
	if err != nil {
		return nil, err
	}
	return blob, nil
}

// Keep implements Store. If the call that others wait for is cancelled, one of them writes
// the layer.
func (f *Folder) Keep(ctx context.Context, key spec.LayerKey, write func(out io.Writer) (Package, error)) (Package, error) {
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

// keep writes a layer. The blob is complete before any document names it.
func (f *Folder) keep(key spec.LayerKey, write func(out io.Writer) (Package, error)) (Package, error) {
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

// temporary writes a temporary file, and removes it on error.
func (f *Folder) temporary(write func(out io.Writer) error) (string, error) {
	file, err := os.CreateTemp(f.path("tmp"), "")
	if err != nil {
		return "", err
	}
	err = write(file)
	if err == nil {
		err = file.Sync() // after a power failure there must be no empty blob under a digest
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
