// Package images creates the images for measurements. Each is the same in every run.
package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/bench/internal/must"
)

// Platforms returns the platforms of a widely used image; the first is linux/amd64.
func Platforms() []v1.Platform {
	return []v1.Platform{
		{OS: "linux", Architecture: "amd64"},
		{OS: "linux", Architecture: "arm64", Variant: "v8"},
		{OS: "linux", Architecture: "arm", Variant: "v7"},
		{OS: "linux", Architecture: "386"},
		{OS: "linux", Architecture: "ppc64le"},
		{OS: "linux", Architecture: "s390x"},
	}
}

// App returns an image with layers of random data, and the history and annotations that
// build tools write.
func App(p v1.Platform, seed byte, sizes ...int64) v1.Image {
	var layers []v1.Layer
	for i, size := range sizes {
		layers = append(layers, NewLayer(types.OCILayer, func() (io.ReadCloser, error) {
			return io.NopCloser(io.LimitReader(rand.NewChaCha8([32]byte{seed, byte(i)}), size)), nil
		}))
	}
	img, _ := mutate.Annotations(New(p, layers...), map[string]string{
		"org.opencontainers.image.base.name":   "registry.example.org/library/debian:bookworm-slim",
		"org.opencontainers.image.created":     "2026-01-31T12:00:00Z",
		"org.opencontainers.image.revision":    "5f5ae3ad9d4bb3bd5ae1c6d0ac0a8ee2b1b3a1f0",
		"org.opencontainers.image.source":      "https://git.example.org/bench/app.git#5f5ae3ad9d4bb3bd5ae1c6d0ac0a8ee2b1b3a1f0",
		"org.opencontainers.image.description": "An image to measure with, for " + p.Architecture,
	}).(v1.Image)
	return img
}

// New returns an image with a history and a configuration.
func New(p v1.Platform, layers ...v1.Layer) v1.Image {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, l := range layers {
		img = must.Get(mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{CreatedBy: fmt.Sprintf("RUN /bin/sh -c make step-%d # buildkit", i)}}))
	}
	config := must.Get(img.ConfigFile()).DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/local/bin/entry"}, Cmd: []string{"run"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"},
	}
	return must.Get(mutate.ConfigFile(img, config))
}

// A Layer is a compressed layer that is read from its source each time and never held in
// memory.
type Layer struct {
	open func() (io.ReadCloser, error)
	sum  v1.Hash
	size int64
	kind types.MediaType
}

// NewLayer returns a layer with the content that open returns, which must always be the
// same.
func NewLayer(kind types.MediaType, open func() (io.ReadCloser, error)) Layer {
	in := must.Get(open())
	defer in.Close()
	h := sha256.New()
	n := must.Get(io.Copy(h, in))
	return Layer{open: open, sum: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}, size: n, kind: kind}
}

// Digest and the other methods implement v1.Layer. The diff IDs are not correct, because
// the images never run.
func (l Layer) Digest() (v1.Hash, error)             { return l.sum, nil }
func (l Layer) DiffID() (v1.Hash, error)             { return l.sum, nil }
func (l Layer) Compressed() (io.ReadCloser, error)   { return l.open() }
func (l Layer) Uncompressed() (io.ReadCloser, error) { return l.open() }
func (l Layer) Size() (int64, error)                 { return l.size, nil }
func (l Layer) MediaType() (types.MediaType, error)  { return l.kind, nil }

// Shell returns a layer with a busybox at /bin/sh, and links to it for the programs that tasks use.
func Shell() Layer {
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		must.Fail("%w (apt-get install busybox-static)", err)
	}
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	must.Do(out.WriteHeader(&tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}))
	must.Do(out.WriteHeader(&tar.Header{Name: "bin/sh", Mode: 0o755, Size: int64(len(program))}))
	must.Get(out.Write(program))
	for _, name := range []string{"cat", "wc"} {
		must.Do(out.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "sh"}))
	}
	must.Do(out.Close())
	return NewLayer(types.OCIUncompressedLayer, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
}

// LargeTar returns a tar of 20,000 files, 2 GB in total, that compresses to about half of its
// size. Each call returns the same bytes.
func LargeTar() io.ReadCloser {
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
