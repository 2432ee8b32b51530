package platform

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// admit is the interceptor of every call: it lets in whom the table of people names,
// and hands their principal to the handler in the context.
func (s *Service) admit(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	need, ok := s.needs[info.FullMethod]
	if !ok {
		return nil, fault.Denied.Newf("Nobody may make this call")
	}
	if need.isProgram || need.isAnonymous {
		return next(ctx, req)
	}
	c, err := s.identifyCaller(ctx, need)
	if err != nil {
		return nil, err
	}
	ctx = identity.WithCaller(ctx, c)
	if need.Need != (orgs.Need{}) {
		at, ok := scopeOf(req, need.Need)
		if !ok {
			return nil, fmt.Errorf("%T does not say where it acts", req)
		}
		p, err := s.Enter(ctx, c, at, need.Need)
		if err != nil {
			return nil, err
		}
		ctx = orgs.WithPrincipal(ctx, p)
	}
	return next(ctx, req)
}

// identifyCaller says who calls: an operator, or whose token it is, if its limit is not
// used up.
func (s *Service) identifyCaller(ctx context.Context, need requirement) (c identity.Caller, err error) {
	call := rpc.CallFrom(ctx)
	if need.isOperator {
		c.Operator, err = s.operators.Check(ctx, call.Client(), call.Authorization)
		return c, err
	}
	return s.Authenticate(ctx, call.Authorization)
}

// scopeOf reads where a call acts: workspace_id, or the ids in a path below an
// organisation.
func scopeOf(req any, need orgs.Need) (at orgs.Scope, ok bool) {
	org, inOrg := req.(interface{ GetOrgId() int64 })
	path, hasID := req.(interface{ GetId() int64 })
	workspace, inWorkspace := req.(interface{ GetWorkspaceId() int64 })
	switch {
	case need.Workspace == orgs.NoRole && inOrg:
		return orgs.Scope{Org: org.GetOrgId()}, true
	case inOrg && hasID:
		return orgs.Below(org.GetOrgId(), path.GetId()), true
	case inWorkspace:
		return orgs.Scope{Workspace: workspace.GetWorkspaceId()}, true
	}
	return orgs.Scope{}, false
}
