package artifact

import (
	"archive/tar"
	"context"
	"io"
)

// hardLink installs a hard link to an earlier file. It becomes a hard link if both are
// installed with the same content, and otherwise a separate file, for which the archive is
// read again.
func (i *installer) hardLink(n int, listed bool, name string, h *tar.Header) error {
	to, err := local(h.Linkname)
	if err != nil {
		return err
	}
	file, ok := i.files[to]
	if !ok {
		return invalid("the hard link %s is to %s, which is not an earlier file", clip(name), clip(h.Linkname))
	}
	i.files[name] = file
	if !listed {
		return nil
	}
	at, installed := i.paths.at[file]
	if !installed || !i.sameContent(at, n) {
		i.copies[file] = append(i.copies[file], n)
		return nil
	}
	path, err := i.claim(n, kindFile)
	if err != nil {
		return err
	}
	of, p := &i.paths.list[at], &i.paths.list[n]
	p.sha256, p.Size = of.sha256, of.Size
	return i.out.Put(Entry{Path: path, Type: tar.TypeLink, Target: of.path, Mode: h.Mode & 0o777, ModTime: truncateTime(h.ModTime)}, nil)
}

// sameContent reports whether two paths with the same packed content are installed with the same
// content. Scripts are always installed separately.
func (i *installer) sameContent(a, b int) bool {
	x, y := &i.paths.list[a], &i.paths.list[b]
	return x.Placeholder == y.Placeholder && x.Mode == y.Mode && !isScript(i.index.Name, x.Path) && !isScript(i.index.Name, y.Path)
}

// copy returns a visit that installs the hard links in i.copies as separate files.
func (i *installer) copy(ctx context.Context) visit {
	return func(h *tar.Header, name string, content io.Reader) error {
		names := i.copies[name]
		if len(names) == 0 || h.Typeflag != tar.TypeReg {
			return nil
		}
		packed := scratch{dir: i.at.Scratch}
		defer packed.close() //nolint:errcheck // it was only read
		if _, err := io.Copy(&packed, content); err != nil {
			return err
		}
		for _, n := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := i.file(n, h, packed.reader()); err != nil {
				return err
			}
		}
		return nil
	}
}
