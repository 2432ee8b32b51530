package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Images of a real tree, the Go installation: in layers as they usually are, and in
// layers that need no decompression.
const (
	treeGzip  = "bench/tree:gzip"
	treePlain = "bench/tree:plain"
	// largeImage is 2 GB in 20,000 files.
	largeImage = "bench/large:1"
)

// pushTree pushes both images of the tree, and answers the tree as one tar file;
// beside it is the same as .gz.
func (w *world) pushTree(ctx context.Context) (string, error) {
	raw, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its folder: %w", err)
	}
	root, whole := strings.TrimSpace(string(raw)), filepath.Join(w.dir, "tree.tar")
	parts := [][]string{{"bin", "pkg"}, {"src/cmd"}, {"lib", "src/internal", "src/net", "src/crypto", "src/runtime"}}
	var all []string
	var plain, packed []v1.Layer
	for i, dirs := range parts {
		all = append(all, dirs...)
		file := filepath.Join(w.dir, fmt.Sprintf("tree-%d.tar", i))
		if err := writeTree(file, root, dirs); err != nil {
			return "", err
		}
		for name, list := range map[string]*[]v1.Layer{file: &plain, file + ".gz": &packed} {
			l, err := newStored(name)
			if err != nil {
				return "", err
			}
			*list = append(*list, l)
		}
	}
	if err := writeTree(whole, root, all); err != nil {
		return "", err
	}
	for image, layers := range map[string][]v1.Layer{treePlain: plain, treeGzip: packed} {
		index, err := linuxIndex(layers...)
		if err == nil {
			err = w.pushIndex(ctx, image, index)
		}
		if err != nil {
			return "", err
		}
	}
	return whole, nil
}

// linuxIndex is an image for one platform.
func linuxIndex(layers ...v1.Layer) (v1.ImageIndex, error) {
	p := allPlatforms()[0]
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{OS: p.OS, Architecture: p.Architecture, RootFS: v1.RootFS{Type: "layers"}})
	if err == nil {
		img, err = mutate.AppendLayers(img, layers...)
	}
	return mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &p}}), err
}

func makeLarge() (v1.ImageIndex, error) {
	l, err := newStoredAs(types.OCIUncompressedLayer, func() (io.ReadCloser, error) { return largeTar(), nil })
	if err != nil {
		return nil, err
	}
	return linuxIndex(l)
}

// writeTree writes folders as a tar, and that again as .gz.
func writeTree(path, root string, dirs []string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	packed, err := os.Create(path + ".gz")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, packed.Close()) }()
	z := gzip.NewWriter(packed)
	out := tar.NewWriter(io.MultiWriter(f, z))
	for _, dir := range dirs {
		if err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return addTo(out, root, name, d)
		}); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), z.Close())
}

func addTo(out *tar.Writer, root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return err
	}
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	if h.Name, err = filepath.Rel(root, name); err != nil {
		return err
	}
	if err := out.WriteHeader(h); err != nil || info.IsDir() {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}

// largeTar is 2 GB in files that differ, and compress by a half or so. The same
// call gives the same bytes.
func largeTar() io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		random := rand.NewChaCha8([32]byte{})
		piece := bytes.Repeat([]byte("half of a file is the same in all\n"), 3100)[:100<<10]
		out := tar.NewWriter(w)
		var err error
		for i := 0; i < 20_000 && err == nil; i++ {
			_, _ = random.Read(piece[:len(piece)/2])
			err = out.WriteHeader(&tar.Header{
				Typeflag: tar.TypeReg, Name: fmt.Sprintf("data/folder-%d/file-%d", i/100, i), Mode: 0o644,
				Size: int64(len(piece)), ModTime: time.Unix(0, 0),
			})
			if err == nil {
				_, err = out.Write(piece)
			}
		}
		_ = w.CloseWithError(errors.Join(err, out.Close()))
	}()
	return r
}
