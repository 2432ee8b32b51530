package identity

import (
	"context"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/platform/api"
)

// GetUserInfo returns the user that the call's token belongs to.
func (s *Service) GetUserInfo(ctx context.Context, _ *platformv1.GetUserInfoRequest) (*platformv1.GetUserInfoResponse, error) {
	c := CallerFrom(ctx)
	u := c.User
	lastUpdated := u.Updated
	if lastUpdated.Before(u.Created) {
		lastUpdated = u.Created
	}
	return &platformv1.GetUserInfoResponse{User: &platformv1.User{
		Id: float64(u.ID), UserName: u.Name, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Organization: u.Organization,
		DateCreated: api.Timestamp(u.Created), LastUpdated: api.Timestamp(lastUpdated), LastAccess: api.Timestamp(s.deps.Now()),
	}, Token: c.Restriction.toProto()}, nil
}
