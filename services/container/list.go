package container

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
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
	from, err := readPlace(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	who, err := s.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	most := cmp.Or(int(req.GetMax()), usuallyListed)
	list, err := s.store.ofUser(ctx, who, from, most+1)
	if err != nil {
		return nil, s.sqlFault("listing requests", err)
	}
	out := &containerv1.ListContainersResponse{}
	if len(list) > most {
		list = list[:most]
		out.NextPageToken = proto.String(placeOf(list[most-1]).String())
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

func listed(r record) *containerv1.Container {
	plan := r.plan
	out := &containerv1.Container{
		RequestKey:        proto.String(keyOf(r.key)),
		ContainerImage:    proto.String(containerImage(plan, r.request)),
		ContainerPlatform: rpc.Optional(plan.GetPlatform()),
		Format:            rpc.Optional(plan.GetFormat()),
		BuildId:           rpc.Optional(plan.GetBuildId()),
		WorkflowId:        rpc.Optional(r.request.GetWorkflowId()),
		Freeze:            proto.Bool(plan.GetFrozen()),
		CreationTime:      timestamppb.New(r.created),
		RevocationTime:    instant(r.revoked),
	}
	if !plan.GetFrozen() {
		out.Expiration = timestamppb.New(r.expires)
	}
	if w := plan.GetIdentity().GetWorkspaceId(); w != 0 {
		out.WorkspaceId = proto.Float64(float64(w))
	}
	return out
}

// known is the request that an id stands for, or a key; by its key it is known to the
// user alone who made it.
func (s *Service) known(ctx context.Context, id string) (record, error) {
	var who *platformv1.Identity
	switch {
	case isToken(id):
	case isKey(id):
		var err error
		if who, err = s.signedIn(ctx); err != nil {
			return record{}, err
		}
	default:
		return record{}, unknownRequest(nil)
	}
	rec, err := s.store.get(ctx, id)
	switch {
	case errors.Is(err, fault.NotFound):
		return record{}, err
	case err != nil:
		return record{}, s.sqlFault("reading a request", err)
	case isKey(id) && (rec.plan.GetIdentity() == nil || caller.Of(rec.plan.GetIdentity()).User() != caller.Of(who).User()):
		return record{}, unknownRequest(errors.New("it is not the caller's"))
	}
	return rec, nil
}

// place is where in the list of a user's requests a page ends: at the last one shown.
type place struct {
	created int64
	key     string
}

func placeOf(r record) place { return place{sqldb.Micros(r.created), r.key} }

// String is the place as a page token.
func (p place) String() string { return strconv.FormatInt(p.created, 10) + "." + p.key }

// readPlace reads a page token; "" is before the newest request.
func readPlace(text string) (place, error) {
	if text == "" {
		return place{created: math.MaxInt64}, nil
	}
	created, key, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(created, 10, 64)
	if err != nil || n < 0 || !isKey(key) {
		return place{}, fault.Invalid.New("pageToken is none that a page of this list came with", err)
	}
	return place{n, key}, nil
}
