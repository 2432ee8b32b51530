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

// The default and maximum number of requests on a page.
const (
	usuallyListed = 20
	mostListed    = 100
)

// ListContainers returns the requests of the user of the Bearer token.
func (s *Service) ListContainers(ctx context.Context, req *containerv1.ListContainersRequest) (*containerv1.ListContainersResponse, error) {
	who, err := s.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetMax() < 0 || req.GetMax() > mostListed {
		return nil, fault.Invalid.Newf("max must be 1 to %d", mostListed)
	}
	from, err := store.ParsePosition(req.GetPageToken())
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
		out.NextPageToken = proto.String(store.PositionOf(list[most-1]).String())
	}
	for _, r := range list {
		out.Containers = append(out.Containers, s.listed(r))
	}
	return out, nil
}

func (s *Service) listed(r store.Record) *containerv1.Container {
	plan := r.Plan
	out := &containerv1.Container{
		RequestId:         proto.String(tokens.IDOf(r.Key)),
		RequestKey:        proto.String(tokens.IDOf(r.Key)),
		ContainerImage:    proto.String(s.containerImage(plan, r.Request)),
		ContainerPlatform: rpc.Optional(plan.GetPlatform()),
		Format:            rpc.Optional(plan.GetFormat()),
		BuildId:           rpc.Optional(plan.GetBuildId()),
		WorkflowId:        rpc.Optional(r.Request.GetWorkflowId()),
		Freeze:            proto.Bool(plan.GetFrozen()),
		CreationTime:      timestamppb.New(r.Created),
		RevocationTime:    timestamp(r.Revoked),
	}
	if !hasPermanentName(plan) {
		out.Expiration = timestamppb.New(r.Expires)
	}
	if w := plan.GetIdentity().GetWorkspaceId(); w != 0 {
		out.WorkspaceId = proto.Float64(float64(w))
	}
	return out
}

// DescribeContainer returns a stored request, also after its name has expired. A caller who
// only knows its ID gets a part of it.
func (s *Service) DescribeContainer(ctx context.Context, req *containerv1.DescribeContainerRequest) (*containerv1.DescribeContainerResponse, error) {
	rec, err := s.find(ctx, req.GetRequestId())
	if err != nil {
		return nil, err
	}
	full := tokens.Is(req.GetRequestId())
	if !full {
		who, err := s.bearer(ctx)
		if err != nil {
			return nil, err
		}
		full = isOwner(rec, who)
	}
	out := s.publicDescription(rec)
	if full {
		s.addPrivate(out, rec)
	}
	s.addRecipe(ctx, out)
	return out, nil
}

// addRecipe adds the recipe, which is stored with the build. If that fails, the rest is
// still returned.
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

// publicDescription returns what any client that knows the id of a request may see. Such a
// client may also see the recipe (addRecipe), which is public by the id of the build.
func (s *Service) publicDescription(rec store.Record) *containerv1.DescribeContainerResponse {
	plan := rec.Plan
	return &containerv1.DescribeContainerResponse{
		RequestId:         proto.String(tokens.IDOf(rec.Key)),
		TargetImage:       s.issuedTarget(plan),
		ContainerImage:    proto.String(s.containerImage(plan, rec.Request)),
		ContainerPlatform: proto.String(plan.GetPlatform()),
		Freeze:            proto.Bool(rec.Request.GetFreeze() || rec.Request.GetMirror()),
		CreationTime:      timestamppb.New(rec.Created),
		Expiration:        expirationShown(rec),
		RevocationTime:    timestamp(rec.Revoked),
		BuildId:           rpc.Optional(plan.GetBuildId()),
	}
}

// expirationShown returns when a name expires; nil for that of a kept image.
func expirationShown(rec store.Record) *timestamppb.Timestamp {
	if rec.Plan.GetKeptId() != "" {
		return nil
	}
	return timestamppb.New(rec.Expires)
}

// addPrivate adds the additions to the image, its digests, and the user who made the
// request.
func (s *Service) addPrivate(out *containerv1.DescribeContainerResponse, rec store.Record) {
	plan := rec.Plan
	out.ContainerConfig = withoutValues(request.WithoutIncluded(plan.GetConfig()))
	out.ContainerIncludes = s.published(rec.Request.GetContainerIncludes())
	out.Digests = plan.GetDigests()
	out.Timestamp = rpc.Optional(rec.Request.GetTimestamp())
	out.Fingerprint = rpc.Optional(rec.Request.GetFingerprint())
	out.WorkflowId = rpc.Optional(rec.Request.GetWorkflowId())
	if id := plan.GetIdentity(); id != nil {
		out.UserId = proto.Float64(float64(id.GetUserId()))
		out.PlatformEndpoint = proto.String(id.GetEndpoint())
		if w := id.GetWorkspaceId(); w != 0 {
			out.WorkspaceId = proto.Float64(float64(w))
		}
	}
}

// withoutValues returns a configuration with the names of variables but not their values.
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
