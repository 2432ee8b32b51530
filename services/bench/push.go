package main

import (
	"io"

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
	// largeImage is 2 GB in 20,000 files.
	largeImage = "bench/large:1"
)

// push makes sure that an image is at the upstream registry.
func (w *world) push(image string) {
	if w.pushed[image] {
		return
	}
	var parts []v1.Image
	switch image {
	case appImage:
		for n, p := range platforms() {
			parts = append(parts, makeApp(p, byte(n), 3<<10, 2<<10, 1<<10, 5<<10, 700, 900, 4<<10, 300))
		}
	case bigImage:
		parts = append(parts, makeApp(platforms()[0], 0, int64(w.blobMiB)<<20))
	case taskImage:
		for n, p := range platforms()[:2] {
			parts = append(parts, makeApp(p, byte(n), 4<<20, 4<<20, 4<<20, 4<<20))
		}
	case baseImage:
		parts = append(parts, makeImage(platforms()[0], shell()))
	case largeImage:
		parts = append(parts, makeImage(platforms()[0], newLayer(types.OCIUncompressedLayer, func() (io.ReadCloser, error) { return largeTar(), nil })))
	}
	w.pushAs(image, parts...)
	w.pushed[image] = true
}

// pushAs pushes an index.
func (w *world) pushAs(image string, parts ...v1.Image) {
	index := v1.ImageIndex(empty.Index)
	for _, img := range parts {
		config := must(img.ConfigFile())
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: config.Platform(), Annotations: must(img.Manifest()).Annotations,
		}})
	}
	ref := must(name.ParseReference(w.upstream().addr+"/"+image, name.Insecure))
	check(remote.WriteIndex(ref, index, remote.WithContext(w.ctx)))
}
