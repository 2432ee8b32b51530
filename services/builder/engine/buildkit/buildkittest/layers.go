package buildkittest

import (
	"context"
	"io"

	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/fault"
)

// layers are the layers of a container service, by digest.
type layers map[string][]byte

// GetLayer implements remote.Layers.
func (l layers) GetLayer(_ context.Context, req *containerv1.GetLayerRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[containerv1.GetLayerResponse], error) {
	content, ok := l[req.GetGzipDigest()]
	if !ok {
		return nil, fault.NotFound.Newf("There is no such layer")
	}
	return &layerStream{rest: content}, nil
}

type layerStream struct {
	grpc.ClientStream
	rest []byte
}

// Recv returns the layer in chunks.
func (s *layerStream) Recv() (*containerv1.GetLayerResponse, error) {
	if len(s.rest) == 0 {
		return nil, io.EOF
	}
	n := min(len(s.rest), 100)
	chunk := s.rest[:n]
	s.rest = s.rest[n:]
	return &containerv1.GetLayerResponse{Chunk: chunk}, nil
}
