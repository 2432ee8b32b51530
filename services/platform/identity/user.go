package identity

import (
	"context"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/platform/api"
)

// GetUserInfo says whose token it is.
func (s *Service) GetUserInfo(ctx context.Context, _ *platformv1.GetUserInfoRequest) (*platformv1.GetUserInfoResponse, error) {
	u := CallerFrom(ctx).User
	lastUpdated := u.Updated
	if lastUpdated.Before(u.Created) {
		lastUpdated = u.Created
	}
	return &platformv1.GetUserInfoResponse{User: &platformv1.User{
		Id: float64(u.ID), UserName: u.Name, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Organization: u.Organization,
		DateCreated: api.Instant(u.Created), LastUpdated: api.Instant(lastUpdated), LastAccess: api.Instant(s.deps.Now()),
	}}, nil
}
