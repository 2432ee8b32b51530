package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// stored is a layer as it lies in a registry, never held in memory.
type stored struct {
	open func() (io.ReadCloser, error)
	sum  v1.Hash
	size int64
	kind types.MediaType
}

// newStored is a layer of a tar file, or of a .tar.gz.
func newStored(path string) (stored, error) {
	kind := types.OCIUncompressedLayer
	if strings.HasSuffix(path, ".gz") {
		kind = types.OCILayer
	}
	return newStoredAs(kind, func() (io.ReadCloser, error) { return os.Open(path) })
}

// newStoredAs is a layer of what open answers, always the same.
func newStoredAs(kind types.MediaType, open func() (io.ReadCloser, error)) (stored, error) {
	in, err := open()
	if err != nil {
		return stored{}, err
	}
	defer in.Close()
	h := sha256.New()
	n, err := io.Copy(h, in)
	return stored{open: open, sum: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}, size: n, kind: kind}, err
}

// Digest and the other methods are those of v1.Layer. Nobody looks at the diff ids
// of an image that is not run.
func (l stored) Digest() (v1.Hash, error)             { return l.sum, nil }
func (l stored) DiffID() (v1.Hash, error)             { return l.sum, nil }
func (l stored) Compressed() (io.ReadCloser, error)   { return l.open() }
func (l stored) Uncompressed() (io.ReadCloser, error) { return l.open() }
func (l stored) Size() (int64, error)                 { return l.size, nil }
func (l stored) MediaType() (types.MediaType, error)  { return l.kind, nil }
