package platform

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/runs"
)

// Authorize returns the owner of an access token of this platform, or of another platform that
// this one trusts.
func (s *Service) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest) (*platformv1.AuthorizeResponse, error) {
	if req.GetWorkspaceId() < 0 {
		return nil, fault.Invalid.Newf("workspaceId must not be negative")
	}
	if endpoint := strings.TrimRight(req.GetEndpoint(), "/"); !s.isOwn(endpoint) {
		if err := s.CheckTrusted(endpoint, s.deps.Endpoint); err != nil {
			return nil, err
		}
		id, err := s.platforms.Authorize(ctx, req, endpoint)
		return &platformv1.AuthorizeResponse{Identity: id}, err
	}
	c, err := s.TokenOwner(ctx, req.GetAccessToken())
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
	workspace, err := c.Restriction.In(req.GetWorkspaceId())
	if err != nil {
		return nil, err
	}
	space, _, err := s.WorkspaceRole(ctx, c.User.ID, workspace)
	if err != nil {
		return nil, err
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{
		Endpoint: s.deps.Endpoint, UserId: c.User.ID, UserName: c.User.Name, Email: c.User.Email, WorkspaceId: workspace, RobotOrgId: c.RobotOrg,
		OrganizationId: cmp.Or(space.Workspace.OrgID, c.RobotOrg), Repositories: c.Restriction.RepositoryNames(),
	}, Administrator: c.User.Administrator && c.Restriction.Workspace == 0 && len(c.Restriction.Repositories) == 0}, nil
}

// CreateToken creates a token for the caller, as identity.Service.CreateToken does, if the caller
// may see its workspace.
func (s *Service) CreateToken(ctx context.Context, req *platformv1.CreateTokenRequest) (*platformv1.CreateTokenResponse, error) {
	if workspace := req.GetToken().GetWorkspaceId(); workspace > 0 {
		if _, _, err := s.WorkspaceRole(ctx, identity.CallerFrom(ctx).User.ID, workspace); err != nil {
			return nil, err
		}
	}
	return s.users.CreateToken(ctx, req)
}

// isOwn reports whether an endpoint is one of this platform's addresses, or "".
func (s *Service) isOwn(endpoint string) bool {
	return endpoint == "" || endpoint == s.deps.Endpoint || slices.Contains(s.deps.Aliases, endpoint)
}

// GetCredentials returns a user's login for a registry. The login is stored at the user's
// platform, which is this platform or one that it trusts.
func (s *Service) GetCredentials(ctx context.Context, req *platformv1.GetCredentialsRequest) (*platformv1.GetCredentialsResponse, error) {
	id := req.GetIdentity()
	if id.GetEndpoint() == s.deps.Endpoint {
		return s.logins.Resolve(ctx, id, req.GetRegistry())
	}
	if err := s.CheckTrusted(id.GetEndpoint(), s.deps.Endpoint); err != nil {
		return nil, fault.Denied.New("The user belongs to another platform", err)
	}
	return s.platforms.Resolve(ctx, id, req.GetRegistry())
}

// GetVex returns the OpenVEX documents that apply to the scans of a user of this platform. Users of other
// platforms have none.
func (s *Service) GetVex(ctx context.Context, req *platformv1.GetVexRequest) (*platformv1.GetVexResponse, error) {
	if req.GetIdentity().GetEndpoint() != s.deps.Endpoint {
		return &platformv1.GetVexResponse{}, nil
	}
	return s.Applied(ctx, req.GetIdentity(), req.GetKnownVersion())
}

// GetRunState reports whether a run is running. The container service keeps the image names of
// a run valid while it is running. A run that the user may not see is reported as not running.
func (s *Service) GetRunState(ctx context.Context, req *platformv1.GetRunStateRequest) (*platformv1.GetRunStateResponse, error) {
	id := req.GetIdentity()
	if !api.IsTextID(req.GetWorkflowId()) {
		return &platformv1.GetRunStateResponse{}, nil
	}
	if id.GetEndpoint() != s.deps.Endpoint {
		if err := s.CheckTrusted(id.GetEndpoint(), s.deps.Endpoint); err != nil {
			return &platformv1.GetRunStateResponse{}, nil //nolint:nilerr // the platform is no longer trusted
		}
		status, err := s.RunStatus(ctx, id, req.GetWorkflowId())
		return &platformv1.GetRunStateResponse{Live: runs.IsLive(status)}, err
	}
	space, _, err := s.WorkspaceRole(ctx, id.GetUserId(), id.GetWorkspaceId())
	if errors.Is(err, fault.Denied) {
		return &platformv1.GetRunStateResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	live, err := s.IsLive(ctx, space, req.GetWorkflowId())
	return &platformv1.GetRunStateResponse{Live: live}, err
}
