package container

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// The states of gateway/contract/container-service.md#status that this service has.
const (
	statusPending  = "PENDING"
	statusBuilding = "BUILDING"
	statusDone     = "DONE"
)

// GetContainerStatus says whether a container can be pulled by now. A served
// image always can; a built one when its build has succeeded.
func (s *Service) GetContainerStatus(ctx context.Context, req *containerv1.GetContainerStatusRequest) (*containerv1.GetContainerStatusResponse, error) {
	rec, err := s.known(ctx, req.GetRequestId())
	if err == nil {
		err = rec.Works(s.deps.Now())
	}
	if err != nil {
		return nil, err
	}
	out := &containerv1.GetContainerStatusResponse{
		Id:           proto.String(req.GetRequestId()),
		CreationTime: timestamppb.New(rec.Created),
		TargetImage:  s.knownName(rec.Plan),
	}
	id := rec.Plan.GetBuildId()
	if id == "" {
		out.Status, out.Succeeded = proto.String(statusDone), proto.Bool(true)
		return out, nil
	}
	if s.deps.Build == nil {
		return nil, fault.Unavailable.Newf("Builds cannot be looked up right now; try again").After(time.Second)
	}
	b, err := s.deps.Build.AwaitBuild(ctx, &buildv1.AwaitBuildRequest{BuildId: id, NoWait: true})
	if err != nil {
		return nil, err
	}
	out.BuildId, out.DetailsUri = proto.String(id), proto.String(s.publicURL()+"/view/builds/"+id)
	describeBuild(out, b)
	return out, nil
}

// describeBuild fills in how the build stands.
func describeBuild(out *containerv1.GetContainerStatusResponse, b *buildv1.AwaitBuildResponse) {
	out.ExpectedStart, out.ExpectedEnd = b.ExpectedStart, b.ExpectedEnd
	switch b.GetState() {
	case buildv1.BuildState_BUILD_STATE_SUCCEEDED, buildv1.BuildState_BUILD_STATE_FAILED:
		out.Status = proto.String(statusDone)
		out.Succeeded = proto.Bool(b.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED)
		out.Reason, out.Message = rpc.Optional(b.GetReason()), rpc.Optional(b.GetMessage())
		if b.GetCompletedAt() != nil && b.GetCreatedAt() != nil {
			took := b.GetCompletedAt().AsTime().Sub(b.GetCreatedAt().AsTime())
			out.Duration = proto.String(strconv.FormatInt(took.Nanoseconds(), 10))
		}
	case buildv1.BuildState_BUILD_STATE_RUNNING:
		out.Status = proto.String(statusBuilding)
	default:
		out.Status = proto.String(statusPending)
		if b.GetPosition() > 0 {
			out.Position = proto.Int32(b.GetPosition())
		}
	}
}

// publicURL is the base of the addresses in responses.
func (s *Service) publicURL() string {
	if s.deps.PublicURL != "" {
		return s.deps.PublicURL
	}
	return "https://" + s.deps.Host
}
