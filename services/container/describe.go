package container

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/rpc"
)

// DescribeContainer returns a stored request, also after its name stopped
// working.
func (s *Service) DescribeContainer(ctx context.Context, req *containerv1.DescribeContainerRequest) (*containerv1.DescribeContainerResponse, error) {
	rec, err := s.known(ctx, req.GetRequestId())
	if err != nil {
		return nil, err
	}
	out := s.description(rec)
	out.RequestId = proto.String(req.GetRequestId())
	s.addRecipe(ctx, out)
	return out, nil
}

// addRecipe adds what was built, which is kept with the build. Without it the rest
// is still worth having.
func (s *Service) addRecipe(ctx context.Context, out *containerv1.DescribeContainerResponse) {
	if out.GetBuildId() == "" || s.deps.Build == nil {
		return
	}
	b, err := s.deps.Build.DescribeBuild(ctx, &buildv1.DescribeBuildRequest{BuildId: out.GetBuildId()})
	if err != nil {
		s.deps.Log.WarnContext(ctx, "A request is described without its recipe", "build_id", out.GetBuildId(), "err", err)
		return
	}
	out.ContainerFile, out.CondaFile = b.GetBuild().ContainerFile, b.GetBuild().CondaFile
	out.CondaOpts, out.ContextSize = b.GetBuild().GetCondaOpts(), b.GetBuild().ContextSize
}

func (s *Service) description(rec store.Record) *containerv1.DescribeContainerResponse {
	plan := rec.Plan
	out := &containerv1.DescribeContainerResponse{
		TargetImage:       s.knownName(plan),
		ContainerImage:    proto.String(containerImage(plan, rec.Request)),
		ContainerPlatform: proto.String(plan.GetPlatform()),
		ContainerConfig:   withoutValues(request.WithoutIncluded(plan.GetConfig())),
		ContainerIncludes: rec.Request.GetContainerIncludes(),
		Digests:           plan.GetDigests(),
		Timestamp:         rpc.Optional(rec.Request.GetTimestamp()),
		Fingerprint:       rpc.Optional(rec.Request.GetFingerprint()),
		WorkflowId:        rpc.Optional(rec.Request.GetWorkflowId()),
		Freeze:            proto.Bool(rec.Request.GetFreeze()),
		CreationTime:      timestamppb.New(rec.Created),
		Expiration:        timestamppb.New(rec.Expires),
		RevocationTime:    instant(rec.Revoked),
		BuildId:           rpc.Optional(plan.GetBuildId()),
	}
	if id := plan.GetIdentity(); id != nil {
		out.UserId = proto.Float64(float64(id.GetUserId()))
		out.PlatformEndpoint = proto.String(id.GetEndpoint())
		if w := id.GetWorkspaceId(); w != 0 {
			out.WorkspaceId = proto.Float64(float64(w))
		}
	}
	return out
}

// withoutValues shows of each variable its name alone.
func withoutValues(c *containerv1.ContainerConfig) *containerv1.ContainerConfig {
	if c == nil {
		return nil
	}
	out := proto.CloneOf(c)
	for i, kv := range out.Env {
		out.Env[i], _, _ = strings.Cut(kv, "=")
	}
	return out
}

func instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
