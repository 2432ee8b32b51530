package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// pack writes a directory's content as a gzip'd tar. The bytes depend on paths,
// modes, links and contents alone: not on times, owners, where the directory
// lies or how its file system orders it. The directory itself has no entry, so
// it does not change the root of an image.
func pack(ctx context.Context, dir string, b *blob) error {
	zw, err := gzip.NewWriterLevel(b, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compressing it: %w", err)
	}
	tw := tar.NewWriter(io.MultiWriter(zw, b.tar))
	tree := os.DirFS(dir)
	err = fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return packEntry(tw, tree, path, d)
	})
	if err != nil {
		return fmt.Errorf("packing it: %w", err)
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("packing it: %w", err)
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("compressing it: %w", err)
	}
	return nil
}

func packEntry(tw *tar.Writer, tree fs.FS, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	h, err := header(tree, path, info)
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(h); err != nil {
		return fmt.Errorf("writing the entry of %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := tree.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if _, err := io.Copy(tw, f); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// header keeps of a file what belongs into an image. Hard links are files here:
// which names share one depends on how the tree was copied.
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
