package platform

import (
	"context"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// AuthorizeUsage returns which usage the owner of an access token may read, and charges the call
// to the owner's limit.
func (s *Service) AuthorizeUsage(ctx context.Context, req *platformv1.AuthorizeUsageRequest) (*platformv1.AuthorizeUsageResponse, error) {
	c, err := s.Authenticate(ctx, "Bearer "+req.GetAccessToken())
	if err != nil {
		return nil, err
	}
	var needs []rpc.Scope
	for _, scope := range req.GetScopes() {
		needs = append(needs, rpc.Scope(scope))
	}
	if err := c.Restriction.Check(needs...); err != nil {
		return nil, err
	}
	resp := &platformv1.AuthorizeUsageResponse{Identity: &platformv1.Identity{Endpoint: s.deps.Endpoint, UserId: c.User.ID, RobotOrgId: c.RobotOrg}}
	at := orgs.Scope{Org: req.GetOrgId(), Workspace: req.GetWorkspaceId()}
	switch {
	case req.GetOwn() && at != orgs.Scope{}:
		return nil, fault.Invalid.Newf("The caller's own usage has no organisation and no workspace")
	case req.GetOwn():
		err = s.ownUsage(ctx, c, resp)
	case at == orgs.Scope{}:
		if !c.User.Administrator || c.Restriction.Workspace != 0 {
			return nil, fault.Denied.Newf("Only administrators may read the usage of all users; name an organisation that you own (orgId) or a workspace in which you have the role admin (workspaceId), or read your own usage (/user/usage)")
		}
		resp.Everything = true
	default:
		err = s.usageOf(ctx, c, at, resp)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// ownUsage selects the usage of the caller.
func (s *Service) ownUsage(ctx context.Context, c identity.Caller, resp *platformv1.AuthorizeUsageResponse) error {
	resp.UserId, resp.WorkspaceId = c.User.ID, c.Restriction.Workspace
	if resp.GetWorkspaceId() == 0 {
		return nil
	}
	_, _, err := s.WorkspaceRole(ctx, c.User.ID, resp.GetWorkspaceId())
	return err
}

// usageOf selects the usage of an organisation or of a workspace.
func (s *Service) usageOf(ctx context.Context, c identity.Caller, at orgs.Scope, resp *platformv1.AuthorizeUsageResponse) error {
	if at.Org == 0 {
		found, err := s.WorkspaceNames(ctx, []int64{at.Workspace})
		if err != nil {
			return err
		}
		at = orgs.InOrg(found[at.Workspace].GetOrgId(), at.Workspace)
	}
	need := orgs.RequiredRoles{Org: orgs.OrgOwner, Workspace: orgs.RoleAdmin, IsOfOwner: true, OrAdministrator: true}
	if _, err := s.CheckAccess(ctx, c, at, need); err != nil {
		return err
	}
	if resp.WorkspaceId = at.Workspace; at.Workspace != 0 {
		return nil
	}
	var err error
	resp.OrgId = at.Org
	resp.OrgWorkspaceIds, err = s.OrgWorkspaces(ctx, at.Org)
	return err
}

// DescribeNames returns the names of users, workspaces and organisations. It omits those that do
// not exist.
func (s *Service) DescribeNames(ctx context.Context, req *platformv1.DescribeNamesRequest) (*platformv1.DescribeNamesResponse, error) {
	for _, ids := range [][]int64{req.GetUserIds(), req.GetWorkspaceIds(), req.GetOrgIds()} {
		if len(ids) > limits.DescribedNames {
			return nil, fault.Invalid.Newf("At most %d names of a kind are returned", limits.DescribedNames)
		}
	}
	users, err1 := s.UserNames(ctx, req.GetUserIds())
	workspaces, err2 := s.WorkspaceNames(ctx, req.GetWorkspaceIds())
	names, err3 := s.OrgNames(ctx, req.GetOrgIds())
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("reading names: %w", err)
	}
	return &platformv1.DescribeNamesResponse{Users: users, Workspaces: workspaces, Orgs: names}, nil
}
