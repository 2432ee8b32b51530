package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"go.podman.io/storage"
	graphdriver "go.podman.io/storage/drivers"
	"go.podman.io/storage/pkg/chunked"
)

// source is a registry that serves parts of a layer.
type source struct {
	layer   []byte
	fetched uint64
}

// GetBlobAt implements chunked.ImageSourceSeekable.
func (s *source) GetBlobAt(parts []chunked.ImageSourceChunk) (chan io.ReadCloser, chan error, error) {
	streams, errs := make(chan io.ReadCloser), make(chan error)
	for _, p := range parts {
		s.fetched += p.Length
	}
	go func() {
		defer close(errs)
		defer close(streams)
		for _, p := range parts {
			streams <- io.NopCloser(bytes.NewReader(s.layer[p.Offset : p.Offset+p.Length]))
		}
	}()
	return streams, errs, nil
}

func zstd(layer, annotations, tarball, folder string) error {
	all, err := notes(annotations)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(layer)
	if err != nil {
		return err
	}
	store, err := storage.GetStore(storage.StoreOptions{
		RunRoot: filepath.Join(folder, "run"), GraphRoot: filepath.Join(folder, "graph"), GraphDriverName: "overlay",
		PullOptions: map[string]string{"enable_partial_images": "true"},
	})
	if err != nil {
		return err
	}
	defer func() { _, _ = store.Shutdown(true) }()
	from := &source{layer: raw}
	differ, err := chunked.NewDiffer(context.Background(), store, digest.FromBytes(raw), int64(len(raw)), all, from)
	if err != nil {
		return err
	}
	defer differ.Close()
	made, err := store.PrepareStagedLayer(nil, differ)
	if err != nil {
		return err
	}
	defer func() { _ = store.CleanupStagedLayer(made) }()
	if err := same(made, tarball); err != nil {
		return err
	}
	fmt.Printf("%d of %d bytes were fetched\n", from.fetched, len(raw))
	return nil
}

// same compares a layer with a tar.
func same(made *graphdriver.DriverWithDifferOutput, tarball string) error {
	plain, err := os.ReadFile(tarball)
	if err != nil {
		return err
	}
	if want := digest.FromBytes(plain); made.UncompressedDigest != want {
		return fmt.Errorf("the tar is %s instead of %s", made.UncompressedDigest, want)
	}
	files := 0
	err = eachFile(tarball, func(h *tar.Header, content []byte) error {
		at := filepath.Join(made.Target, h.Name)
		if h.Typeflag != tar.TypeReg {
			_, err := os.Lstat(at)
			return err
		}
		files++
		got, err := os.ReadFile(at)
		if err == nil && !bytes.Equal(got, content) {
			err = errors.New("the content differs")
		}
		return err
	})
	fmt.Printf("%d files are equal\n", files)
	return err
}
