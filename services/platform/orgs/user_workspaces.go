package orgs

import (
	"context"
	"fmt"
	"slices"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
)

// ListUserWorkspaces returns the caller's organisations, each followed by those of its
// workspaces that the caller may see.
func (s *Service) ListUserWorkspaces(ctx context.Context, req *platformv1.ListUserWorkspacesRequest) (*platformv1.ListUserWorkspacesResponse, error) {
	p := PrincipalFrom(ctx)
	if req.GetUserId() != p.User.ID {
		return nil, fault.Denied.Newf("No such user, or the user is not you")
	}
	everything := sqldb.Page{Limit: 1000, Like: sqldb.Like("")}
	orgs, _, err := s.store.orgsOf(ctx, p.User.ID, everything)
	if err != nil {
		return nil, fmt.Errorf("reading the organisations of user %d: %w", p.User.ID, err)
	}
	workspaces, _, err := s.store.workspacesOf(ctx, p.User.ID, 0, everything)
	if err != nil {
		return nil, fmt.Errorf("reading the workspaces of user %d: %w", p.User.ID, err)
	}
	resp := &platformv1.ListUserWorkspacesResponse{}
	seen := map[int64]bool{}
	orgEntry := func(id int64, name string, roles ...string) {
		if !seen[id] {
			seen[id] = true
			resp.OrgsAndWorkspaces = append(resp.OrgsAndWorkspaces,
				&platformv1.UserWorkspace{OrgId: float64(id), OrgName: name, OrgType: orgType, Roles: roles})
		}
	}
	only := p.Restriction.Workspace
	if only != 0 { // the token only shows its workspace and the organisation of that workspace
		orgs = nil
		workspaces = slices.DeleteFunc(workspaces, func(w workspaceWithRoles) bool { return w.workspace.ID != only })
	}
	for _, m := range orgs {
		orgEntry(m.org.ID, m.org.Name, m.member.role)
	}
	for _, w := range workspaces {
		orgEntry(w.workspace.OrgID, w.workspace.OrgName) // the user is a collaborator, not a member
		resp.OrgsAndWorkspaces = append(resp.OrgsAndWorkspaces, userWorkspace(w))
	}
	resp.OrgsAndWorkspaces, err = paging.Slice(resp.OrgsAndWorkspaces, req)
	return resp, err
}

func userWorkspace(w workspaceWithRoles) *platformv1.UserWorkspace {
	r := w.roles.participant
	if w.roles.org == orgRoleOwner {
		r = RoleOwner.String()
	}
	if r == "" {
		r = RoleView.String()
	}
	return &platformv1.UserWorkspace{
		OrgId: float64(w.workspace.OrgID), OrgName: w.workspace.OrgName, OrgType: orgType,
		WorkspaceId: api.IDValue(w.workspace.ID), WorkspaceName: api.StringValue(w.workspace.Name),
		WorkspaceFullName: api.StringValue(w.workspace.FullName), Visibility: api.StringValue(w.workspace.Visibility), Roles: []string{r},
	}
}
