package container

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// GetContainerStatus says whether a container can be pulled by now. A served
// image always can.
func (s *Service) GetContainerStatus(ctx context.Context, req *containerv1.GetContainerStatusRequest) (*containerv1.GetContainerStatusResponse, error) {
	rec, err := s.live(ctx, req.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &containerv1.GetContainerStatusResponse{
		Id:           proto.String(req.GetRequestId()),
		Status:       proto.String("DONE"),
		Succeeded:    proto.Bool(true),
		CreationTime: timestamppb.New(rec.created),
	}, nil
}
