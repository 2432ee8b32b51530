package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The images at the upstream registry.
const (
	// appImage is small: an index of six platforms with manifests of eight layers.
	appImage = "bench/app:1"
	// bigImage has one large layer.
	bigImage = "bench/big:1"
	// taskImage is what many pull at once: four layers of 4 MiB.
	taskImage = "bench/task:1"
	// baseImage is what builds start from: a static busybox.
	baseImage = "bench/base:1"
)

// push makes sure that an image is at the upstream registry.
func (w *world) push(ctx context.Context, image string) error {
	if w.pushed[image] {
		return nil
	}
	sizes, platforms := []int64{3 << 10, 2 << 10, 1 << 10, 5 << 10, 700, 900, 4 << 10, 300}, allPlatforms()
	switch image {
	case bigImage:
		sizes, platforms = []int64{int64(w.blobMiB) << 20}, platforms[:1]
	case taskImage:
		sizes, platforms = []int64{4 << 20, 4 << 20, 4 << 20, 4 << 20}, platforms[:2]
	}
	index, err := makeIndex(sizes, platforms)
	switch image {
	case baseImage:
		index, err = makeBase()
	case largeImage:
		index, err = makeLarge()
	}
	if err != nil {
		return fmt.Errorf("making %s: %w", image, err)
	}
	return w.pushIndex(ctx, image, index)
}

func (w *world) pushIndex(ctx context.Context, image string, index v1.ImageIndex) error {
	up, err := w.upstream(ctx)
	if err != nil {
		return err
	}
	ref, err := name.ParseReference(up.addr+"/"+image, name.Insecure)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("pushing %s: %w", image, err)
	}
	w.pushed[image] = true
	return nil
}

func allPlatforms() []v1.Platform {
	return []v1.Platform{
		{OS: "linux", Architecture: "amd64"},
		{OS: "linux", Architecture: "arm64", Variant: "v8"},
		{OS: "linux", Architecture: "arm", Variant: "v7"},
		{OS: "linux", Architecture: "386"},
		{OS: "linux", Architecture: "ppc64le"},
		{OS: "linux", Architecture: "s390x"},
	}
}

func makeIndex(sizes []int64, platforms []v1.Platform) (v1.ImageIndex, error) {
	index := v1.ImageIndex(empty.Index)
	for n, p := range platforms {
		img, err := makeImage(sizes, p, byte(n))
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &p, Annotations: annotations(p)},
		})
	}
	return index, nil
}

// annotations are such as build tools write.
func annotations(p v1.Platform) map[string]string {
	return map[string]string{
		"org.opencontainers.image.base.name":   "registry.example.org/library/debian:bookworm-slim",
		"org.opencontainers.image.created":     "2026-01-31T12:00:00Z",
		"org.opencontainers.image.revision":    "5f5ae3ad9d4bb3bd5ae1c6d0ac0a8ee2b1b3a1f0",
		"org.opencontainers.image.source":      "https://git.example.org/bench/app.git#5f5ae3ad9d4bb3bd5ae1c6d0ac0a8ee2b1b3a1f0",
		"org.opencontainers.image.description": "An image to measure with, for " + p.Architecture,
	}
}

func makeImage(sizes []int64, p v1.Platform, seed byte) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, size := range sizes {
		layer, err := newNoise(size, seed, byte(i))
		if err != nil {
			return nil, err
		}
		img, err = mutate.Append(img, mutate.Addendum{
			Layer: layer, History: v1.History{CreatedBy: fmt.Sprintf("RUN /bin/sh -c make step-%d # buildkit", i)},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/local/bin/entry"}, Cmd: []string{"run"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"},
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(img, annotations(p)).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("annotating an image gave a %T", annotated)
	}
	return annotated, nil
}

// noise is a layer of random bytes, which do not compress; made again for every
// reader, never held.
type noise struct {
	seed [32]byte
	size int64
	sum  v1.Hash
}

func newNoise(size int64, seed ...byte) (noise, error) {
	n := noise{size: size}
	copy(n.seed[:], seed)
	h := sha256.New()
	if _, err := io.Copy(h, n.reader()); err != nil {
		return n, err
	}
	n.sum = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
	return n, nil
}

func (n noise) reader() io.Reader { return io.LimitReader(rand.NewChaCha8(n.seed), n.size) }

// Digest and the other methods are those of v1.Layer.
func (n noise) Digest() (v1.Hash, error)             { return n.sum, nil }
func (n noise) DiffID() (v1.Hash, error)             { return n.sum, nil }
func (n noise) Compressed() (io.ReadCloser, error)   { return io.NopCloser(n.reader()), nil }
func (n noise) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(n.reader()), nil }
func (n noise) Size() (int64, error)                 { return n.size, nil }
func (n noise) MediaType() (types.MediaType, error)  { return types.OCILayer, nil }
