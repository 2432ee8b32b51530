package platform

import (
	"context"
	"fmt"
	"path"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// admit authorizes every call by the table of access rules. The returned context carries the
// caller, and the principal if the call requires a role.
func (s *Service) admit(ctx context.Context, call string, req any) (context.Context, error) {
	need, ok := s.needs[call]
	if !ok {
		return nil, fault.Denied.Newf("This call is not allowed")
	}
	if need.isProgram || need.isAnonymous {
		return ctx, nil
	}
	c, err := s.identifyCaller(ctx, need)
	if err != nil {
		s.recordRefusal(ctx, call, req, err)
		return nil, err
	}
	ctx = audit.WithActor(identity.WithCaller(ctx, c), actorOf(c))
	admitted, err := s.checkCaller(ctx, c, need, req)
	if err != nil {
		s.recordRefusal(ctx, call, req, err)
	}
	return admitted, err
}

// actorOf returns the audit trail's actor for a caller.
func actorOf(c identity.Caller) audit.Actor {
	if c.Operator != "" {
		return audit.Actor{Name: "operator:" + c.Operator}
	}
	return audit.Actor{UserID: c.User.ID, Name: c.User.Name}
}

// recordRefusal records a call that was rejected, unless it only reads.
func (s *Service) recordRefusal(ctx context.Context, call string, req any, err error) {
	name := path.Base(call)
	for _, reads := range []string{"Get", "List", "Describe", "Validate"} {
		if strings.HasPrefix(name, reads) && name != "GetCredentialsKeys" {
			return
		}
	}
	e := audit.Event{Action: "call." + name}
	if org, ok := req.(interface{ GetOrgId() int64 }); ok {
		e.OrgID = org.GetOrgId()
	}
	if at, ok := req.(interface{ GetWorkspaceId() int64 }); ok {
		e.WorkspaceID = at.GetWorkspaceId()
	}
	s.audit.Refuse(ctx, e, err)
}

// checkCaller checks that an authenticated caller meets a requirement. The returned context
// carries the principal if the call requires a role.
func (s *Service) checkCaller(ctx context.Context, c identity.Caller, need requirement, req any) (context.Context, error) {
	restriction := c.Restriction
	if need.isAnyRepository {
		restriction.Repositories = nil
	}
	if err := restriction.Check(need.scope); err != nil {
		return nil, err
	}
	if c.Restriction.Workspace != 0 && !need.isAnyWorkspace && need.Workspace == orgs.NoRole {
		return nil, c.Restriction.Elsewhere()
	}
	if need.isAdministrator && !c.User.Administrator {
		return nil, fault.Denied.Newf("Only administrators may make this call")
	}
	if org, ok := req.(interface{ GetOrgId() int64 }); need.isOwnOrOrg && ok && org.GetOrgId() == 0 {
		need.RequiredRoles = orgs.RequiredRoles{}
	}
	if need.RequiredRoles == (orgs.RequiredRoles{}) {
		return ctx, nil
	}
	at, ok := scopeOf(req, need.RequiredRoles)
	if !ok {
		return nil, fmt.Errorf("%T has no organisation or workspace", req)
	}
	p, err := s.CheckAccess(ctx, c, at, need.RequiredRoles)
	if err != nil {
		return nil, err
	}
	return orgs.WithPrincipal(ctx, p), nil
}

// identifyCaller returns the operator or the user that the Authorization header identifies. For
// a user it charges the call to the user's limit.
func (s *Service) identifyCaller(ctx context.Context, need requirement) (c identity.Caller, err error) {
	call := rpc.CallFrom(ctx)
	if need.isOperator {
		c.Operator, err = s.operators.Check(ctx, call.Client(), call.Authorization)
		return c, err
	}
	return s.Authenticate(ctx, call.Authorization)
}

// scopeOf returns the scope of a request: its organisation, its workspace, or both. It returns
// false if the request has neither.
func scopeOf(req any, need orgs.RequiredRoles) (at orgs.Scope, ok bool) {
	org, inOrg := req.(interface{ GetOrgId() int64 })
	path, hasID := req.(interface{ GetId() int64 })
	workspace, inWorkspace := req.(interface{ GetWorkspaceId() int64 })
	switch {
	case need.IsOfOwner && inOrg && inWorkspace && workspace.GetWorkspaceId() != 0:
		return orgs.InOrg(org.GetOrgId(), workspace.GetWorkspaceId()), true
	case need.IsOfOwner && inOrg && inWorkspace:
		return orgs.Scope{Org: org.GetOrgId()}, true
	case need.Workspace == orgs.NoRole && inOrg:
		return orgs.Scope{Org: org.GetOrgId()}, true
	case inOrg && hasID:
		return orgs.InOrg(org.GetOrgId(), path.GetId()), true
	case inWorkspace:
		return orgs.Scope{Workspace: workspace.GetWorkspaceId()}, true
	}
	return orgs.Scope{}, false
}
