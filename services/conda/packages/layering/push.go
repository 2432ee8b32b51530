package layering

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// Registry is the repository that an image is pushed to.
type Registry interface {
	// Has reports whether the repository has a blob.
	Has(ctx context.Context, d ocispec.Descriptor) (bool, error)
	// Put pushes a blob.
	Put(ctx context.Context, d ocispec.Descriptor, content io.Reader) error
	// MountOrCopy mounts or copies a layer of the base image.
	MountOrCopy(ctx context.Context, d ocispec.Descriptor) error
	// Manifest pushes a manifest or index, with the image's tag if named is set.
	Manifest(ctx context.Context, doc oci.Document, named bool) error
}

// Pushed is the result of a push.
type Pushed struct {
	// Root is the tagged document: the manifest, or the index of several.
	Root oci.Document
	// Layers is the number of package layers in the images. Sent is the number of those
	// that the registry did not have, and SentBytes their total size.
	Layers, Sent int
	SentBytes    int64
}

// ErrEvicted is returned if a layer was evicted from the store. Packages builds it again.
var ErrEvicted = errors.New("the layer no longer exists")

// Push pushes an image, or an index with one image for each of several platforms. There
// must be at least one. It pushes small documents first, so that a registry which rejects
// pushes fails early, and the tag last. It skips existing blobs. It reads the layers of
// packages from the store, and returns ErrEvicted if one was evicted.
func (m *Builder) Push(ctx context.Context, to Registry, images ...Image) (Pushed, error) {
	out := Pushed{}
	for _, i := range images {
		if err := i.pushSmall(ctx, to); err != nil {
			return out, err
		}
	}
	if err := m.blobs(ctx, to, images, &out); err != nil {
		return out, err
	}
	for _, i := range images {
		if err := to.Manifest(ctx, i.Manifest, len(images) == 1); err != nil {
			return out, fmt.Errorf("sending the manifest for %s: %w", platforms.Format(i.Platform), err)
		}
	}
	if out.Root = images[0].Manifest; len(images) == 1 {
		return out, nil
	}
	var err error
	if out.Root, err = Index(images); err != nil {
		return out, err
	}
	return out, to.Manifest(ctx, out.Root, true)
}

// pushSmall pushes the configuration and the image's own layer.
func (i Image) pushSmall(ctx context.Context, to Registry) error {
	config := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: i.Config.Digest, Size: int64(len(i.Config.Bytes))}
	if err := put(ctx, to, config, bytes.NewReader(i.Config.Bytes)); err != nil {
		return err
	}
	return put(ctx, to, i.Own.descriptor(), bytes.NewReader(i.OwnBlob))
}

func (l Layer) descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size, Annotations: l.Annotations}
}

func put(ctx context.Context, to Registry, d ocispec.Descriptor, content io.Reader) error {
	there, err := to.Has(ctx, d)
	if err != nil || there {
		return err
	}
	return to.Put(ctx, d, content)
}

// blobs pushes the layers, each once, several at a time.
func (m *Builder) blobs(ctx context.Context, to Registry, images []Image, out *Pushed) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(m.Concurrency, 2))
	seen := map[digest.Digest]bool{}
	var sent, length atomic.Int64
	for _, i := range images {
		for _, d := range i.Base {
			if seen[d.Digest] || len(d.URLs) > 0 { // foreign layers may not be copied
				continue
			}
			seen[d.Digest] = true
			g.Go(func() error { return to.MountOrCopy(ctx, d) })
		}
		for _, l := range i.Layers {
			if seen[l.Digest] {
				continue
			}
			seen[l.Digest] = true
			out.Layers++
			g.Go(func() error {
				n, err := m.send(ctx, to, l)
				length.Add(n)
				sent.Add(min(n, 1))
				return err
			})
		}
	}
	err := g.Wait()
	out.Sent, out.SentBytes = int(sent.Load()), length.Load()
	return err
}

// send pushes a layer unless the registry has it. It returns the number of bytes sent,
// including those that were sent early.
func (m *Builder) send(ctx context.Context, to Registry, l Layer) (int64, error) {
	there, err := to.Has(ctx, l.descriptor())
	if err != nil || there {
		return m.Share.sentEarly(l.Digest), err
	}
	blob, err := m.Store.Open(ctx, l)
	if errors.Is(err, fault.NotFound) {
		return 0, fmt.Errorf("%s: %w", l.By, ErrEvicted)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = blob.Close() }()
	return l.Size, to.Put(ctx, l.descriptor(), blob)
}
