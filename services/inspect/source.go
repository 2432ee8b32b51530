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

// A source opens one layer.
type source struct {
	key listingKey
	// open opens the layer. The content is not verified.
	open func(context.Context) (io.ReadCloser, error)
	// fault converts an error of open or of reading to a fault for the caller. It returns nil
	// for nil.
	fault func(error) error
}

// sourceOf returns the source of a layer. A layer of the image itself is read from the image's
// registry. A layer that a container request added is read from the registry that it was
// included from, or from the container service. Layers that a request added with a URL are not
// read: only clients fetch them.
func (s *Service) sourceOf(ctx context.Context, l imageReader, layer ocispec.Descriptor) (source, error) {
	added := l.added(layer)
	switch from := added.GetIncludedFrom(); {
	case added == nil:
		return s.registrySource(upstream.Repository{Host: l.image.Registry, Name: l.image.Repository}, l.access, layer), nil
	case from != nil:
		repo := upstream.Repository{Host: from.GetRegistry(), Name: from.GetRepository()}
		access, err := s.accessOf(ctx, from, repo.Host, repo.Name)
		return s.registrySource(repo, access, layer), err
	case !strings.HasPrefix(added.GetLocation(), "data:"):
		return source{}, fault.Invalid.Newf("The layer %s has an address of its own, from which only clients fetch it; its files cannot be listed", layer.Digest)
	}
	return source{
		key:   listingKey{digest: layer.Digest},
		open:  func(ctx context.Context) (io.ReadCloser, error) { return s.openUploaded(ctx, added) },
		fault: func(err error) error { return err },
	}, nil
}

// added returns the layer of the container request with the digest of layer; nil for a layer of
// the image itself.
func (l imageReader) added(layer ocispec.Descriptor) *containerv1.Layer {
	list := l.plan.GetConfig().GetLayers()
	i := slices.IndexFunc(list, func(a *containerv1.Layer) bool { return a.GetGzipDigest() == layer.Digest.String() })
	if i < 0 {
		return nil
	}
	return list[i]
}

// registrySource returns the source of a layer in a registry.
func (s *Service) registrySource(repo upstream.Repository, a upstream.Access, layer ocispec.Descriptor) source {
	return source{
		key: listingKey{repo, layer.Digest},
		open: func(ctx context.Context) (io.ReadCloser, error) {
			return s.deps.Upstream.ReadBlob(ctx, repo, layer.Digest, a, 0, layer.Size)
		},
		fault: func(err error) error { return a.Explain(upstream.ControlFault(repo.Host, err)) },
	}
}

// openUploaded opens a layer that was uploaded with a container request.
func (s *Service) openUploaded(ctx context.Context, l *containerv1.Layer) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.deps.Containers.GetLayer(ctx, &containerv1.GetLayerRequest{GzipDigest: l.GetGzipDigest()})
	if err != nil {
		cancel()
		return nil, err
	}
	return &chunkReader{stream: stream, cancel: cancel}, nil
}

// A chunkReader reads the bytes of a stream of messages.
type chunkReader struct {
	stream grpc.ServerStreamingClient[containerv1.GetLayerResponse]
	cancel context.CancelFunc
	rest   []byte
}

// Read implements io.Reader.
func (c *chunkReader) Read(p []byte) (int, error) {
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

// Close cancels the stream.
func (c *chunkReader) Close() error {
	c.cancel()
	return nil
}
