// Package rootfs unpacks the layers of an image into a folder, as an ordinary user who uses it as the root of commands.
//
// Layers are untrusted. Package flatten merges them, and rejects names outside the image and excessive sizes; the files are
// written below the folder only. All files belong to the user. Device nodes, FIFOs, extended attributes, setuid and setgid bits, and the
// right of other users to write are left out.
package rootfs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/internal/limits"
)

// A Layer is one layer of an image. It is read once or twice.
type Layer = flatten.Layer

// A Summary describes what was unpacked.
type Summary = flatten.Summary

// Unpack writes the merged files of layers, the lowest first, into a new folder. After an error, the folder may exist with a part of the
// files.
func Unpack(ctx context.Context, folder string, layers []Layer) (Summary, error) {
	s, err := unpack(ctx, folder, layers, flatten.Write)
	if errors.Is(err, flatten.ErrTwice) {
		if err := os.RemoveAll(folder); err != nil {
			return s, fmt.Errorf("unpacking an image: %w", err)
		}
		s, err = unpack(ctx, folder, layers, flatten.WriteTwice)
	}
	if err != nil {
		return s, fmt.Errorf("unpacking an image: %w", err)
	}
	return s, nil
}

type writer func(context.Context, flatten.Output, []flatten.Layer, flatten.Limits) (flatten.Summary, error)

func unpack(ctx context.Context, folder string, layers []Layer, write writer) (s Summary, err error) {
	err = os.Mkdir(folder, 0o755) //nolint:gosec // other users may read a shared cache
	if err == nil {
		err = os.Chmod(folder, 0o755) //nolint:gosec // as above, whatever the umask is
	}
	if err != nil {
		return s, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return s, err
	}
	out := &output{root: root, buffer: make([]byte, 128<<10)}
	s, err = write(ctx, out, layers, flatten.Limits{
		Bytes: limits.MountRootBytes, Entries: limits.ImageEntries, Names: limits.ImageEntries, NameBytes: limits.ImageNameBytes, Memory: arena.NewBudget(limits.ImageTables),
	})
	s.LeftOut += out.leftOut
	return s, errors.Join(err, root.Close())
}

// output writes entries below a folder. No name leads out of it: an os.Root follows no link that does.
type output struct {
	root    *os.Root
	buffer  []byte
	parent  string // the last folder that was created
	leftOut int
}

// Add writes one entry.
func (o *output) Add(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if name == "." {
		return nil
	}
	if h.Typeflag == tar.TypeDir {
		return o.directory(name, h)
	}
	if err := o.makeParent(path.Dir(name)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return o.file(name, h, content)
	case tar.TypeSymlink:
		return o.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return o.root.Link(path.Clean(h.Linkname), name)
	}
	o.leftOut++
	return nil
}

func (o *output) makeParent(dir string) error {
	if dir == "." || dir == o.parent || strings.HasPrefix(o.parent, dir+"/") {
		return nil
	}
	if err := o.makeFolders(dir); err != nil {
		return err
	}
	o.parent = dir
	return nil
}

// makeFolders creates a folder and those that it is in, which other users may read whatever the umask is.
func (o *output) makeFolders(dir string) error {
	err := o.root.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) && dir != "." {
		if err = o.makeFolders(path.Dir(dir)); err == nil {
			err = o.root.Mkdir(dir, 0o755)
		}
	}
	if err == nil {
		return o.root.Chmod(dir, 0o755)
	}
	if info, statErr := o.root.Stat(dir); errors.Is(err, fs.ErrExist) && statErr == nil && info.IsDir() {
		return nil
	}
	return err
}

// directory creates a folder, which its content may have created before.
func (o *output) directory(name string, h *tar.Header) error {
	if err := o.makeParent(name); err != nil {
		return err
	}
	return o.root.Chmod(name, fs.FileMode(h.Mode)&0o755|0o700)
}

func (o *output) file(name string, h *tar.Header, content io.Reader) error {
	mode := fs.FileMode(h.Mode)&0o755 | 0o400
	f, err := o.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, content, o.buffer)
	if err == nil && n != h.Size {
		err = fmt.Errorf("%s has %d bytes instead of %d: %w", name, n, h.Size, io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = f.Chmod(mode) // whatever the umask is
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return o.root.Chtimes(name, h.ModTime, h.ModTime)
}
