package inspect

import (
	"context"
	"io"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// source is where a layer is read.
type source struct {
	key listingKey
	// open begins to read it, unverified.
	open func(context.Context) (io.ReadCloser, error)
	// fault says what an error in the middle means for the caller; nil stays nil.
	fault func(error) error
}

// sourceOf finds where a layer of an image is read: with the image, or, of a name that this
// service gave out, where the request that made the name has it from.
func (s *Service) sourceOf(ctx context.Context, l look, layer ocispec.Descriptor) (source, error) {
	added := l.added(layer)
	switch from := added.GetIncludedFrom(); {
	case added == nil:
		return s.atRegistry(upstream.Repository{Host: l.image.Registry, Name: l.image.Repository}, l.access, layer), nil
	case from != nil:
		repo := upstream.Repository{Host: from.GetRegistry(), Name: from.GetRepository()}
		access, err := s.accessOf(ctx, from, repo.Host, repo.Name)
		return s.atRegistry(repo, access, layer), err
	case !strings.HasPrefix(added.GetLocation(), "data:"):
		return source{}, fault.Invalid.Newf("The layer %s lies at an address of its own, where this service does not read it; it is for clients to fetch", layer.Digest)
	}
	return source{
		key:   listingKey{digest: layer.Digest},
		open:  func(ctx context.Context) (io.ReadCloser, error) { return s.given(ctx, added) },
		fault: func(err error) error { return err },
	}, nil
}

// added is the layer of the request that made a name; nil for one of the image's own.
func (l look) added(layer ocispec.Descriptor) *containerv1.Layer {
	list := l.plan.GetConfig().GetLayers()
	i := slices.IndexFunc(list, func(a *containerv1.Layer) bool { return a.GetGzipDigest() == layer.Digest.String() })
	if i < 0 {
		return nil
	}
	return list[i]
}

func (s *Service) atRegistry(repo upstream.Repository, a upstream.Access, layer ocispec.Descriptor) source {
	return source{
		key: listingKey{repo, layer.Digest},
		open: func(ctx context.Context) (io.ReadCloser, error) {
			return s.deps.Upstream.ReadBlob(ctx, repo, layer.Digest, a, 0, layer.Size)
		},
		fault: func(err error) error { return a.Explain(upstream.ControlFault(repo.Host, err)) },
	}
}

// given reads a layer that came with a request.
func (s *Service) given(ctx context.Context, l *containerv1.Layer) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.deps.Containers.GetLayer(ctx, &containerv1.GetLayerRequest{GzipDigest: l.GetGzipDigest()})
	if err != nil {
		cancel()
		return nil, err
	}
	return &chunks{stream: stream, cancel: cancel}, nil
}

// chunks is a stream of messages as one of bytes.
type chunks struct {
	stream grpc.ServerStreamingClient[containerv1.GetLayerResponse]
	cancel context.CancelFunc
	rest   []byte
}

// Read implements io.Reader.
func (c *chunks) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		m, err := c.stream.Recv()
		if err != nil {
			return 0, err
		}
		c.rest = m.GetChunk()
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Close ends the stream.
func (c *chunks) Close() error {
	c.cancel()
	return nil
}
