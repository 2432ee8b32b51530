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

// Registry is the repository that an image goes to.
type Registry interface {
	// Has says whether the repository has a blob.
	Has(ctx context.Context, d ocispec.Descriptor) (bool, error)
	// Put sends a blob.
	Put(ctx context.Context, d ocispec.Descriptor, content io.Reader) error
	// Bring has a layer of the base image mounted, or copies it.
	Bring(ctx context.Context, d ocispec.Descriptor) error
	// Manifest sends a manifest or index; named gives it the image's name, too.
	Manifest(ctx context.Context, doc oci.Document, named bool) error
}

// Pushed is what a push came to.
type Pushed struct {
	// Root is what has the name now: the manifest, or the index of several.
	Root oci.Document
	// Layers is how many layers of packages the images have, Sent how many were not
	// there, and SentBytes how long those are together.
	Layers, Sent int
	SentBytes    int64
}

// ErrGone is a layer that the store had, and has no more: Packages makes it again.
var ErrGone = errors.New("the layer is not there any more")

// Push sends an image, or one for each of several platforms (at least one is given): what is small first,
// since a registry that takes nothing says so at once, and the name last. What is
// there is not sent again. The layers of packages come from the store; one that is
// gone from it is ErrGone.
func (m *Maker) Push(ctx context.Context, to Registry, images ...Image) (Pushed, error) {
	out := Pushed{}
	for _, i := range images {
		if err := i.small(ctx, to); err != nil {
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

// small sends the configuration and the image's own layer.
func (i Image) small(ctx context.Context, to Registry) error {
	config := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: i.Config.Digest, Size: int64(len(i.Config.Bytes))}
	if err := put(ctx, to, config, bytes.NewReader(i.Config.Bytes)); err != nil {
		return err
	}
	return put(ctx, to, i.Own.descriptor(), bytes.NewReader(i.OwnBlob))
}

func (l Layer) descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size}
}

func put(ctx context.Context, to Registry, d ocispec.Descriptor, content io.Reader) error {
	there, err := to.Has(ctx, d)
	if err != nil || there {
		return err
	}
	return to.Put(ctx, d, content)
}

// blobs sends the layers, each once, some at a time.
func (m *Maker) blobs(ctx context.Context, to Registry, images []Image, out *Pushed) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(m.AtOnce, 2))
	seen := map[digest.Digest]bool{}
	var sent, length atomic.Int64
	for _, i := range images {
		for _, d := range i.Base {
			if seen[d.Digest] || len(d.URLs) > 0 { // what is elsewhere for good may not be copied
				continue
			}
			seen[d.Digest] = true
			g.Go(func() error { return to.Bring(ctx, d) })
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

// send sends a layer that is not there, and answers how many bytes that took, also when
// it was sent early.
func (m *Maker) send(ctx context.Context, to Registry, l Layer) (int64, error) {
	there, err := to.Has(ctx, l.descriptor())
	if err != nil || there {
		return m.Share.early(l.Digest), err
	}
	blob, err := m.Store.Open(ctx, l)
	if errors.Is(err, fault.NotFound) {
		return 0, fmt.Errorf("%s: %w", l.By, ErrGone)
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = blob.Close() }()
	return l.Size, to.Put(ctx, l.descriptor(), blob)
}
