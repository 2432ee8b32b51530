package container

import (
	"errors"

	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
)

// chunk is how much of a layer goes into one message.
const chunk = 1 << 20

// GetLayer streams the content of a `data:` layer.
func (s *Service) GetLayer(req *containerv1.GetLayerRequest, stream grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
	content, err := s.store.Layer(stream.Context(), req.GetGzipDigest())
	if errors.Is(err, fault.NotFound) {
		return err
	}
	if err != nil {
		return s.sqlFault("reading a layer", err)
	}
	for len(content) > 0 {
		n := min(len(content), chunk)
		if err := stream.Send(&containerv1.GetLayerResponse{Chunk: content[:n]}); err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}
