package world

import (
	"io"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/bench/internal/images"
	"slipway.dev/services/bench/internal/must"
)

// The images at the upstream registry.
const (
	// AppImage is small: an index of six platforms with manifests of eight layers.
	AppImage = "bench/app:1"
	// BigImage has one large layer.
	BigImage = "bench/big:1"
	// TaskImage is for concurrent pulls: four layers of 4 MiB.
	TaskImage = "bench/task:1"
	// BaseImage is the base image of builds: a static busybox.
	BaseImage = "bench/base:1"
	// LargeImage is 2 GB in 20,000 files.
	LargeImage = "bench/large:1"
	// PairImage is for two platforms, with eight layers of PairLayer bytes each.
	PairImage = "bench/pair:1"
)

// PairLayer is the size of each layer of PairImage, and PairBytes that of all of them.
const (
	PairLayer = 32 << 20
	PairBytes = 16 * PairLayer
)

// Push pushes an image to the upstream registry unless it exists.
func (w *World) Push(image string) {
	if w.pushed[image] {
		return
	}
	var parts []v1.Image
	switch image {
	case AppImage:
		for n, p := range images.Platforms() {
			parts = append(parts, images.App(p, byte(n), 3<<10, 2<<10, 1<<10, 5<<10, 700, 900, 4<<10, 300))
		}
	case BigImage:
		parts = append(parts, images.App(images.Platforms()[0], 0, int64(w.BlobMiB)<<20))
	case TaskImage:
		for n, p := range images.Platforms()[:2] {
			parts = append(parts, images.App(p, byte(n), 4<<20, 4<<20, 4<<20, 4<<20))
		}
	case PairImage:
		for n, p := range images.Platforms()[:2] {
			parts = append(parts, images.App(p, byte(100+n), slices.Repeat([]int64{PairLayer}, 8)...))
		}
	case BaseImage:
		parts = append(parts, images.New(images.Platforms()[0], images.Shell()))
	case LargeImage:
		parts = append(parts, images.New(images.Platforms()[0], images.NewLayer(types.OCIUncompressedLayer, func() (io.ReadCloser, error) { return images.LargeTar(), nil })))
	}
	w.PushAs(image, parts...)
	w.pushed[image] = true
}

// PushAs pushes an index.
func (w *World) PushAs(image string, parts ...v1.Image) {
	index := v1.ImageIndex(empty.Index)
	for _, img := range parts {
		config := must.Get(img.ConfigFile())
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: config.Platform(), Annotations: must.Get(img.Manifest()).Annotations,
		}})
	}
	ref := must.Get(name.ParseReference(w.upstream().Addr+"/"+image, name.Insecure))
	must.Do(remote.WriteIndex(ref, index, remote.WithContext(w.Ctx)))
}
