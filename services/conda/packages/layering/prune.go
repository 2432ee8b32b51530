package layering

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Prune removes the least recently used layers until the blobs fit into limit bytes, and
// then the documents without blobs. An image that was about to use a removed layer gets
// ErrEvicted and builds it again.
func (f *Folder) Prune(ctx context.Context, limit int64) (freed int64, err error) {
	blobs, err := f.files("blobs")
	if err != nil {
		return 0, err
	}
	slices.SortFunc(blobs, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	kept := int64(0)
	for _, b := range blobs {
		if kept += b.Size(); kept <= limit {
			continue
		}
		kept -= b.Size()
		if err := errors.Join(ctx.Err(), os.Remove(f.path("blobs", b.Name()))); err != nil {
			return freed, err
		}
		freed += b.Size()
	}
	if freed == 0 {
		return 0, nil
	}
	return freed, f.forget(ctx)
}

// forget removes the documents of layers that no longer exist.
func (f *Folder) forget(ctx context.Context) error {
	documents, err := f.files("packages")
	if err != nil {
		return err
	}
	for _, d := range documents {
		file := f.path("packages", d.Name())
		if p, err := readPackage(file); err == nil && f.verify(p.Layer) == nil {
			continue
		}
		if err := errors.Join(ctx.Err(), os.Remove(file)); err != nil {
			return err
		}
	}
	return nil
}

// files returns the files of a folder, without those that are deleted meanwhile.
func (f *Folder) files(dir string) ([]fs.FileInfo, error) {
	names, err := filepath.Glob(f.path(dir, "*"))
	if err != nil {
		return nil, err
	}
	var out []fs.FileInfo
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil {
			out = append(out, info)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return out, nil
}

// touch marks a layer as recently used.
func (f *Folder) touch(l Layer) {
	// On failure, the layer is only evicted earlier than others.
	_ = os.Chtimes(f.path("blobs", l.Digest.Encoded()), time.Time{}, time.Now())
}
