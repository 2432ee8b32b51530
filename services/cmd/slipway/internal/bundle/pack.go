package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/file"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/internal/limits"
)

// tarSuffix is the suffix of the names of bundles in one file, and partialSuffix is added to such a
// name for the folder of a bundle that is not complete.
const tarSuffix, partialSuffix = ".tar", ".partial"

// baseFile is the file of a partial folder that has the digest of the index of the tar file that it extends.
const baseFile = ".base"

// createTarget opens or creates the bundle to write to: a folder, or a tar file. The layout of a tar file is a
// folder beside it until pack, which the next run uses if this one is interrupted, and has the content of
// an existing tar file.
func createTarget(to string) (*layout, error) {
	info, err := os.Stat(to)
	if !strings.HasSuffix(to, tarSuffix) || err == nil && info.IsDir() {
		return createLayout(to)
	}
	real, err := file.Resolve(to)
	if err != nil {
		return nil, fmt.Errorf("creating the bundle: %w", err)
	}
	folder := real + partialSuffix
	if info, err := os.Lstat(folder); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder; delete it", folder)
	}
	l, err := createLayout(folder)
	if err != nil {
		return nil, err
	}
	l.target, l.perm = real, 0o644
	if err := l.extend(); err != nil { // the folder is locked: no other command writes the file
		err = errors.Join(err, l.discard())
		l.close()
		return nil, err
	}
	return l, nil
}

// extend opens the tar file that exists.
func (l *layout) extend() error {
	base := "none"
	info, err := os.Stat(l.target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("opening the bundle: %w", err)
	}
	if err == nil {
		before, err := openTar(l.target)
		if err != nil {
			return fmt.Errorf("the file exists, and cannot be extended: %w", err)
		}
		defer func() { l.tar = before.tar }() // what is read below is that of the folder
		raw, err := before.read(indexFile, limits.BundleIndex)
		if err != nil {
			return fmt.Errorf("opening the bundle: %w", err)
		}
		l.perm, base = info.Mode().Perm(), digest.FromBytes(raw).String()
	}
	if _, err := l.root.Lstat(indexFile); err == nil { // of an interrupted run
		if raw, err := l.read(baseFile, 100); err != nil || string(raw) != base {
			return fmt.Errorf("%s was replaced since a run was interrupted that has written to %s; delete that folder", l.target, l.path)
		}
	}
	return l.replace(baseFile, []byte(base))
}

// end writes the tar file of a layout that has one, unless the command was interrupted, or finish, whose
// error is given, has failed. The next run continues in the folder.
func (l *layout) end(cmd *cobra.Command, err error) error {
	if l.target == "" {
		return err
	}
	if err != nil {
		return errors.Join(err, fmt.Errorf("%s is not written; the same command continues, and deleting %s begins again", l.target, l.path))
	}
	if err = l.pack(cmd.Context(), cmd.ErrOrStderr()); cmd.Context().Err() != nil && err != nil {
		return fmt.Errorf("interrupted before %s was written; the same command continues", l.target)
	}
	return err
}

// pack writes the tar file, unless nothing has changed, and then deletes the folder. Its files are in the order of
// their paths, after those that other programs read first.
func (l *layout) pack(ctx context.Context, w io.Writer) error {
	if _, err := l.root.Lstat(indexFile); errors.Is(err, fs.ErrNotExist) {
		return ctx.Err() // nothing was copied
	}
	changed, rest, err := l.changes()
	if err == nil && changed {
		if _, err := fmt.Fprintf(w, "Writing %s\n", output.Printable(l.target)); err != nil {
			return fmt.Errorf("printing the progress: %w", err)
		}
		err = l.writeTar(ctx)
	}
	if err == nil && (changed || !rest) {
		err = os.RemoveAll(l.path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", l.target, err)
	}
	return nil
}

// changes reports whether the folder has an index or a blob that replaces that of the tar file, and whether it has
// other blobs, which the next run can use.
func (l *layout) changes() (changed, rest bool, err error) {
	if l.tar == nil {
		return true, false, nil
	}
	before, err := (&layout{path: l.target, tar: l.tar}).read(indexFile, limits.BundleIndex)
	if err != nil {
		return false, false, err
	}
	now, err := l.read(indexFile, limits.BundleIndex)
	if err != nil {
		return false, false, err
	}
	blobs, err := fs.ReadDir(l.root.FS(), blobsDir)
	changed = !bytes.Equal(before, now)
	for _, b := range blobs {
		if _, _, missing := l.tar.open(path.Join(blobsDir, b.Name())); missing == nil {
			changed = true
		}
	}
	return changed, len(blobs) > 0, err
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
		if err = l.writeFile(ctx, w, name); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
		}
	}
	if err = errors.Join(w.Close(), f.Chmod(l.perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(filepath.Join(l.path, l.nameOf(f)), l.target); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(l.target)) // before the content of the folder is deleted
}

// syncFolder makes the names of the files in a folder durable.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // a file system may not have it
		return errors.Join(err, f.Close())
	}
	return f.Close()
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

// writeFile adds a file of the layout. Its owner and time are the same in all bundles. The digests of blobs
// are verified.
func (l *layout) writeFile(ctx context.Context, w *tar.Writer, name string) error {
	f, size, err := l.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f.Read(b)
	}))
	if err == nil && n != size {
		err = fmt.Errorf("it has %d bytes instead of %d", n, size)
	}
	if want, isBlob := blobOf(name); err == nil && isBlob && !bytes.Equal(want[:], sum.Sum(nil)) {
		err = errors.New("it was changed; request its image again")
	}
	return err
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(b []byte) (int, error) { return r(b) }
