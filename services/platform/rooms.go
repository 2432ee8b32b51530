package platform

import (
	"context"
	"errors"
	"slices"
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/runs"
)

// Authorize says who an access token belongs to, here or at another platform.
func (s *Service) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest) (*platformv1.AuthorizeResponse, error) {
	if req.GetWorkspaceId() < 0 {
		return nil, fault.Invalid.Newf("A workspace id is not negative")
	}
	if endpoint := strings.TrimRight(req.GetEndpoint(), "/"); !s.isOwn(endpoint) {
		if err := s.Trusts(endpoint, s.deps.Endpoint); err != nil {
			return nil, err
		}
		id, err := s.platforms.Authorize(ctx, req, endpoint)
		return &platformv1.AuthorizeResponse{Identity: id}, err
	}
	u, err := s.Holder(ctx, req.GetAccessToken())
	if err != nil {
		return nil, err
	}
	if _, _, err := s.EnterWorkspace(ctx, u.ID, req.GetWorkspaceId()); err != nil {
		return nil, err
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{
		Endpoint: s.deps.Endpoint, UserId: u.ID, UserName: u.Name, Email: u.Email, WorkspaceId: req.GetWorkspaceId(),
	}, Administrator: u.ID == identity.AdminID}, nil
}

// isOwn says whether an endpoint is this platform: one of its addresses, or none.
func (s *Service) isOwn(endpoint string) bool {
	return endpoint == "" || endpoint == s.deps.Endpoint || slices.Contains(s.deps.Aliases, endpoint)
}

// GetCredentials returns a user's login at one registry, which is kept here or at the
// user's own platform.
func (s *Service) GetCredentials(ctx context.Context, req *platformv1.GetCredentialsRequest) (*platformv1.GetCredentialsResponse, error) {
	id := req.GetIdentity()
	if id.GetEndpoint() == s.deps.Endpoint {
		return s.logins.Resolve(ctx, id, req.GetRegistry())
	}
	if err := s.Trusts(id.GetEndpoint(), s.deps.Endpoint); err != nil {
		return nil, fault.Denied.New("The user belongs to another platform", err)
	}
	return s.platforms.Resolve(ctx, id, req.GetRegistry())
}

// GetRunState says whether a run goes on, for whoever keeps something for as long as
// it does.
func (s *Service) GetRunState(ctx context.Context, req *platformv1.GetRunStateRequest) (*platformv1.GetRunStateResponse, error) {
	id := req.GetIdentity()
	if !api.IsTextID(req.GetWorkflowId()) {
		return &platformv1.GetRunStateResponse{}, nil
	}
	if id.GetEndpoint() != s.deps.Endpoint {
		if err := s.Trusts(id.GetEndpoint(), s.deps.Endpoint); err != nil {
			return &platformv1.GetRunStateResponse{}, nil //nolint:nilerr // nobody trusts it any more
		}
		status, err := s.RunStatus(ctx, id, req.GetWorkflowId())
		return &platformv1.GetRunStateResponse{Live: runs.IsLive(status)}, err
	}
	in, _, err := s.EnterWorkspace(ctx, id.GetUserId(), id.GetWorkspaceId())
	if errors.Is(err, fault.Denied) {
		return &platformv1.GetRunStateResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	live, err := s.IsLive(ctx, in, req.GetWorkflowId())
	return &platformv1.GetRunStateResponse{Live: live}, err
}
