package layer

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// pack writes a directory's content as a gzipped tar. The bytes only depend on paths,
// modes, links and contents: not on times, owners, the directory's location or the order of
// its file system. The directory itself has no entry, so it does not change the root of an
// image. Data folders of a slipwayd, sockets, pipes and devices are omitted and reported to
// the writer tell.
func pack(ctx context.Context, dir string, ignored *Ignored, tell io.Writer, b *blob) error {
	zw, err := gzip.NewWriterLevel(b, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compressing it: %w", err)
	}
	p := packing{tar: tar.NewWriter(io.MultiWriter(zw, b.tar)), tree: os.DirFS(dir), ignored: ignored, caution: &caution{to: tell}}
	if isDataFolder(p.tree, ".") {
		return fmt.Errorf("%s is the data folder of a slipwayd, with its keys: give another directory", dir)
	}
	err = fs.WalkDir(p.tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return p.visit(path, d)
	})
	if err != nil {
		return fmt.Errorf("packing it: %w", err)
	}
	p.caution.end(dir)
	if err := p.tar.Close(); err != nil {
		return fmt.Errorf("packing it: %w", err)
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("compressing it: %w", err)
	}
	return nil
}

// packing is a directory that is being packed.
type packing struct {
	tar     *tar.Writer
	tree    fs.FS
	ignored *Ignored
	caution *caution
	held    []pendingDir
}

// pendingDir is an excluded directory that may contain included files.
type pendingDir struct {
	path  string
	entry fs.DirEntry
}

// visit packs a file that is not excluded, after its parent directories.
func (p *packing) visit(path string, d fs.DirEntry) error {
	if p.ignored.has(path) {
		if !d.IsDir() {
			return nil
		}
		if !p.ignored.exceptions() {
			return fs.SkipDir
		}
		p.held = append(p.held, pendingDir{path, d})
		return nil
	}
	switch mode := d.Type(); {
	case mode.IsDir() && isDataFolder(p.tree, path):
		p.caution.printExcluded(path, "it is the data folder of a slipwayd, with its keys")
		return fs.SkipDir
	case !mode.IsRegular() && !mode.IsDir() && mode.Type() != fs.ModeSymlink:
		p.caution.printExcluded(path, "it is a socket, pipe or device, which no layer can hold")
		return nil
	}
	for _, dir := range p.held {
		if strings.HasPrefix(path, dir.path+"/") {
			if err := p.add(dir.path, dir.entry); err != nil {
				return err
			}
		}
	}
	p.held = nil // they are packed, or no longer parents
	return p.add(path, d)
}

func (p *packing) add(path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	h, err := header(p.tree, path, info)
	if err != nil {
		return err
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("writing the entry of %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	p.caution.packed(p.tree, path)
	f, err := p.tree.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if _, err := io.Copy(p.tar, f); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// header returns a tar header with the attributes that belong in an image. Hard links become
// separate files, since a copy of the tree may not have the same hard links.
func header(tree fs.FS, path string, info fs.FileInfo) (*tar.Header, error) {
	var target string
	switch mode := info.Mode(); {
	case mode.IsRegular():
	case mode.IsDir():
		path += "/"
	case mode.Type() == fs.ModeSymlink:
		var err error
		if target, err = fs.ReadLink(tree, path); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%s is a socket, pipe or device, which no layer can hold; remove it", path)
	}
	full, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, fmt.Errorf("describing %s: %w", path, err)
	}
	return &tar.Header{
		Typeflag: full.Typeflag,
		Name:     path,
		Linkname: full.Linkname,
		Size:     full.Size,
		Mode:     full.Mode,
		ModTime:  time.Unix(0, 0),
	}, nil
}
