package platform

import (
	"context"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
)

// apiVersion is the version of this kind of API that clients look for.
const apiVersion = "1.198.0"

// heartbeat is how often runs report, in seconds.
const heartbeat = 60

// GetServiceInfo says what is running.
func (s *Service) GetServiceInfo(context.Context, *platformv1.GetServiceInfoRequest) (*platformv1.GetServiceInfoResponse, error) {
	var ways []string
	if s.deps.OIDC.Issuer != "" {
		ways = append(ways, "oidc")
	}
	return &platformv1.GetServiceInfoResponse{ServiceInfo: &platformv1.ServiceInfo{
		AuthTypes: ways,
		Version:   s.deps.Version, ApiVersion: apiVersion, CommitId: s.deps.Commit,
		LoginPath: "/login", Navbar: &platformv1.Navbar{}, HeartbeatInterval: heartbeat,
		UserWorkspaceEnabled: true, LandingUrl: s.deps.Endpoint, WaveEnabled: true,
	}}, nil
}

// ListUserWorkspaces lists organisations, each followed by its workspaces.
func (s *Service) ListUserWorkspaces(ctx context.Context, req *platformv1.ListUserWorkspacesRequest) (*platformv1.ListUserWorkspacesResponse, error) {
	p := principalFrom(ctx)
	if req.GetUserId() != p.User.ID {
		return nil, fault.Denied.Newf("There is no such user, or it is not you")
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
	for _, m := range orgs {
		orgEntry(m.org.ID, m.org.Name, m.member.role)
	}
	for _, w := range workspaces {
		orgEntry(w.workspace.OrgID, w.workspace.OrgName) // a collaborator's
		resp.OrgsAndWorkspaces = append(resp.OrgsAndWorkspaces, userWorkspace(w))
	}
	return resp, nil
}

func userWorkspace(w placed) *platformv1.UserWorkspace {
	r := w.in.participant
	if w.in.org == "owner" {
		r = roleOwner.String()
	}
	if r == "" {
		r = roleView.String()
	}
	return &platformv1.UserWorkspace{
		OrgId: float64(w.workspace.OrgID), OrgName: w.workspace.OrgName, OrgType: orgType,
		WorkspaceId: api.Number(w.workspace.ID), WorkspaceName: api.Text(w.workspace.Name),
		WorkspaceFullName: api.Text(w.workspace.FullName), Visibility: api.Text(w.workspace.Visibility), Roles: []string{r},
	}
}

// ListComputeEnvs answers an empty list: clients ask for it.
func (s *Service) ListComputeEnvs(ctx context.Context, req *platformv1.ListComputeEnvsRequest) (*platformv1.ListComputeEnvsResponse, error) {
	return &platformv1.ListComputeEnvsResponse{}, nil
}
