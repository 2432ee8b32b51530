package bundle

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
)

// tarSuffix is the suffix of the names of bundles in one file, and partialSuffix is added to such a
// name for the folder of a bundle that is not complete.
const tarSuffix, partialSuffix = ".tar", ".partial"

// createTarget opens or creates the bundle to write to: a folder, or a tar file. The layout of a tar file is a
// folder beside it until pack, which the next run uses if this one is interrupted, and has the content of
// an existing tar file.
func createTarget(to string) (*layout, error) {
	info, err := os.Stat(to)
	if !strings.HasSuffix(to, tarSuffix) || err == nil && info.IsDir() {
		return createLayout(to)
	}
	var before *archive
	if err == nil {
		if before, err = openArchive(to); err == nil {
			err = (&layout{path: to, tar: before}).check()
		}
		if err != nil {
			if before != nil {
				before.close()
			}
			return nil, fmt.Errorf("%s exists and is not a bundle; give a new name: %w", to, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("creating the bundle: %w", err)
	}
	l, err := createLayout(to + partialSuffix)
	if err != nil {
		if before != nil {
			before.close()
		}
		return nil, err
	}
	l.tar, l.target = before, to
	return l, nil
}

// pack writes the tar file of a layout that has one, and then deletes the folder. Its files are in the order of
// their paths, after those that other programs read first.
func (l *layout) pack(ctx context.Context) error {
	if l.target == "" {
		return nil
	}
	if _, err := l.root.Lstat(indexFile); errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was copied
	}
	err := l.writeTar(ctx)
	if err == nil {
		err = os.RemoveAll(l.path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", l.target, err)
	}
	return nil
}

func (l *layout) writeTar(ctx context.Context) (err error) {
	blobs, err := l.blobPaths()
	if err != nil {
		return err
	}
	if len(blobs) > limits.BundleFiles-10 {
		return fmt.Errorf("it would have more than %d files; use another one", limits.BundleFiles)
	}
	f, err := l.temporary("bundle")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = l.root.Remove(l.nameOf(f)) // the folder is deleted by the next run otherwise
		}
	}()
	w := tar.NewWriter(f)
	for _, name := range slices.Concat([]string{ocispec.ImageLayoutFile, indexFile}, blobs) {
		if err = ctx.Err(); err == nil {
			err = l.writeFile(w, name)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
		}
	}
	if err = errors.Join(w.Close(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(filepath.Join(l.path, l.nameOf(f)), l.target)
}

// blobPaths returns the paths of all blobs, in the order of their digests.
func (l *layout) blobPaths() ([]string, error) {
	entries, err := fs.ReadDir(l.root.FS(), blobsDir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if name := path.Join(blobsDir, e.Name()); e.Type().IsRegular() {
			if _, ok := blobOf(name); ok {
				out = append(out, name)
			}
		}
	}
	if l.tar != nil {
		out = append(out, l.tar.paths()...)
	}
	out = slices.DeleteFunc(out, func(name string) bool { return l.forgotten[name] })
	slices.Sort(out)
	return slices.Compact(out), nil
}

// writeFile adds a file of the layout. Its owner and time are the same in all bundles.
func (l *layout) writeFile(w *tar.Writer, name string) error {
	f, size, err := l.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	n, err := io.Copy(w, f)
	if err == nil && n != size {
		err = fmt.Errorf("it has %d bytes instead of %d", n, size)
	}
	return err
}
