package container

import (
	"context"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/rpc"
)

// The states of gateway/contract/container-service.md#status that this service uses.
const (
	statusPending  = "PENDING"
	statusBuilding = "BUILDING"
	statusDone     = "DONE"
)

// GetContainerStatus reports whether a container can be pulled now. An existing image
// always can, a built image once its build has succeeded; if the request requires a scan, only after that. The call needs no login, because
// clients poll it with only the ID.
func (s *Service) GetContainerStatus(ctx context.Context, req *containerv1.GetContainerStatusRequest) (*containerv1.GetContainerStatusResponse, error) {
	rec, err := s.find(ctx, req.GetRequestId())
	if err == nil {
		err = rec.Works(s.deps.Now())
	}
	if err != nil {
		return nil, err
	}
	out := &containerv1.GetContainerStatusResponse{
		Id:           proto.String(tokens.IDOf(rec.Key)),
		CreationTime: timestamppb.New(rec.Created),
		TargetImage:  s.issuedTarget(rec.Plan),
	}
	id := rec.Plan.GetBuildId()
	if id == "" {
		out.Status, out.Succeeded = proto.String(statusDone), proto.Bool(true)
		return out, s.addScanStatus(ctx, out, rec)
	}
	b, err := s.stateOf(ctx, id)
	if err != nil {
		return nil, err
	}
	out.BuildId, out.DetailsUri = proto.String(id), proto.String(s.publicURL()+"/view/builds/"+id)
	if rec.Plan.GetMirror() {
		out.MirrorId, out.DetailsUri = proto.String(id), proto.String(s.publicURL()+"/view/mirrors/"+id)
	}
	describeBuild(out, b)
	return out, s.addScanStatus(ctx, out, rec)
}

// describeBuild sets the state of the build.
func describeBuild(out *containerv1.GetContainerStatusResponse, b *buildv1.AwaitBuildResponse) {
	out.ExpectedStart, out.ExpectedEnd = b.ExpectedStart, b.ExpectedEnd
	switch b.GetState() {
	case buildv1.BuildState_BUILD_STATE_SUCCEEDED, buildv1.BuildState_BUILD_STATE_FAILED:
		out.Status = proto.String(statusDone)
		out.Succeeded = proto.Bool(b.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED)
		out.Reason, out.ReasonCode, out.Message = rpc.Optional(b.GetSummary()), rpc.Optional(b.GetReason()), rpc.Optional(b.GetMessage())
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

// publicURL returns the base of URLs in responses.
func (s *Service) publicURL() string {
	if s.deps.PublicURL != "" {
		return s.deps.PublicURL
	}
	return "https://" + s.deps.Host
}
