package container

import (
	"cmp"
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
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

// signedIn is the user whom the Bearer token names.
func (s *Service) signedIn(ctx context.Context) (*platformv1.Identity, error) {
	return caller.Gate{Platform: s.deps.Platform}.Identify(ctx, caller.Claim{})
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

// known is the request that an id stands for, or a key; by its key it is known to the
// user alone who made it.
func (s *Service) known(ctx context.Context, id string) (store.Record, error) {
	var who *platformv1.Identity
	switch {
	case tokens.Is(id):
	case tokens.IsKey(id):
		var err error
		if who, err = s.signedIn(ctx); err != nil {
			return store.Record{}, err
		}
	default:
		return store.Record{}, store.Unknown(nil)
	}
	rec, err := s.store.Get(ctx, id)
	switch {
	case errors.Is(err, fault.NotFound):
		return store.Record{}, err
	case err != nil:
		return store.Record{}, s.sqlFault("reading a request", err)
	case tokens.IsKey(id) && (rec.Plan.GetIdentity() == nil || caller.Of(rec.Plan.GetIdentity()).User() != caller.Of(who).User()):
		return store.Record{}, store.Unknown(errors.New("it is not the caller's"))
	}
	return rec, nil
}
