package container

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// How many requests are listed at a time.
const (
	usuallyListed = 20
	mostListed    = 100
)

// ListContainers returns the requests of the user whom the Bearer token names.
func (s *Service) ListContainers(ctx context.Context, req *containerv1.ListContainersRequest) (*containerv1.ListContainersResponse, error) {
	if req.GetMax() < 0 || req.GetMax() > mostListed {
		return nil, fault.Invalid.Newf("max must be 1 to %d", mostListed)
	}
	from, err := store.ReadPlace(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	who, err := s.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	most := cmp.Or(int(req.GetMax()), usuallyListed)
	list, err := s.store.OfUser(ctx, who, from, most+1)
	if err != nil {
		return nil, s.sqlFault("listing requests", err)
	}
	out := &containerv1.ListContainersResponse{}
	if len(list) > most {
		list = list[:most]
		out.NextPageToken = proto.String(store.PlaceOf(list[most-1]).String())
	}
	for _, r := range list {
		out.Containers = append(out.Containers, listed(r))
	}
	return out, nil
}

func listed(r store.Record) *containerv1.Container {
	plan := r.Plan
	out := &containerv1.Container{
		RequestKey:        proto.String(tokens.KeyOf(r.Key)),
		ContainerImage:    proto.String(containerImage(plan, r.Request)),
		ContainerPlatform: rpc.Optional(plan.GetPlatform()),
		Format:            rpc.Optional(plan.GetFormat()),
		BuildId:           rpc.Optional(plan.GetBuildId()),
		WorkflowId:        rpc.Optional(r.Request.GetWorkflowId()),
		Freeze:            proto.Bool(plan.GetFrozen()),
		CreationTime:      timestamppb.New(r.Created),
		RevocationTime:    instant(r.Revoked),
	}
	if !plan.GetFrozen() {
		out.Expiration = timestamppb.New(r.Expires)
	}
	if w := plan.GetIdentity().GetWorkspaceId(); w != 0 {
		out.WorkspaceId = proto.Float64(float64(w))
	}
	return out
}

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
