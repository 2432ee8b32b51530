package platform

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/identity"
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
	p := principal{Caller: c}
	if err := s.enter(ctx, &p, need, req); err != nil {
		return nil, err
	}
	return next(context.WithValue(identity.WithCaller(ctx, c), principalKey{}, p), req)
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

// enter lets somebody into the organisation and the workspace that the request
// names, with the role that the call asks for.
func (s *Service) enter(ctx context.Context, p *principal, need requirement, req any) (err error) {
	if need.org == noMember && need.workspace == noRole {
		return nil
	}
	at, ok := scopeOf(req, need)
	if !ok {
		return fmt.Errorf("%T does not say where it acts", req)
	}
	if need.org != noMember || at.org != 0 {
		if err := s.enterOrg(ctx, p, at.org, need.org); err != nil {
			return err
		}
	}
	if need.workspace == noRole {
		return nil
	}
	if p.space, p.role, err = s.enterWorkspace(ctx, p.User.ID, at); err != nil {
		return err
	}
	if p.role < need.workspace {
		return fault.Denied.Newf("This needs the role %s in the workspace; yours is %s", need.workspace, p.role)
	}
	return nil
}

// scopeOf reads where a call acts: workspace_id, or the ids in a path below an
// organisation.
func scopeOf(req any, need requirement) (at scope, ok bool) {
	org, inOrg := req.(interface{ GetOrgId() int64 })
	path, hasID := req.(interface{ GetId() int64 })
	workspace, inWorkspace := req.(interface{ GetWorkspaceId() int64 })
	switch {
	case need.workspace == noRole && inOrg:
		return scope{org: org.GetOrgId()}, true
	case inOrg && hasID:
		return inside(org.GetOrgId(), path.GetId()), true
	case inWorkspace:
		return scope{workspace: workspace.GetWorkspaceId()}, true
	}
	return scope{}, false
}
