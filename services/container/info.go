package container

import (
	"context"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// contractVersion is the level of the REST contract that is spoken. Existing
// clients warn when it is below what they know.
const contractVersion = "1.31.0"

// GetServiceInfo says what is running.
func (s *Service) GetServiceInfo(context.Context, *containerv1.GetServiceInfoRequest) (*containerv1.GetServiceInfoResponse, error) {
	return &containerv1.GetServiceInfoResponse{ServiceInfo: &containerv1.ServiceInfo{
		Version:  proto.String(contractVersion),
		CommitId: proto.String(s.deps.Commit),
	}}, nil
}
