package identity

import (
	"context"
	"fmt"
	"slices"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/rpc"
)

// A RobotOwner is the organisation or the workspace that robots belong to. Workspace is 0 for
// an organisation.
type RobotOwner struct{ Org, Workspace int64 }

// robotOwner returns the owner that a request names. The access rules have checked that the caller
// administers it.
func robotOwner(req interface {
	GetOrgId() int64
	GetWorkspaceId() int64
},
) RobotOwner {
	return RobotOwner{req.GetOrgId(), req.GetWorkspaceId()}
}

// RobotName returns the name of a robot in the audit trail and in /user-info. No user has such
// a name, since names of users contain neither ":" nor "/". workspace is "" for a robot of an
// organisation.
func RobotName(org, workspace, name string) string {
	if workspace != "" {
		org += "/" + workspace
	}
	return "robot:" + org + "/" + name
}

// CheckRobotName returns fault.Invalid for an invalid name of a robot.
func CheckRobotName(name string) error {
	if len(name) > 40 || !userNameForm.MatchString(name) {
		return fault.Invalid.Newf("The name of a robot must have up to 40 lower-case letters and digits, with single - _ . between them")
	}
	return nil
}

// ListRobotTokens returns a page of the tokens of a robot; fault.NotFound if there is no such robot.
func (s *Service) ListRobotTokens(ctx context.Context, req *platformv1.ListRobotTokensRequest) (*platformv1.ListRobotTokensResponse, error) {
	r, err := s.store.robot(ctx, robotOwner(req), req.GetRobotId())
	if err != nil {
		return nil, fmt.Errorf("reading robot %d: %w", req.GetRobotId(), err)
	}
	list, err := s.store.robotTokens(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens of robot %d: %w", req.GetRobotId(), err)
	}
	if list, err = paging.Slice(list, req); err != nil {
		return nil, err
	}
	resp := &platformv1.ListRobotTokensResponse{}
	for _, t := range list {
		resp.Tokens = append(resp.Tokens, t.record())
	}
	return resp, nil
}

// CreateRobotToken creates a token for a robot. The token has at least one scope and never
// rpc.ScopeAdmin, so that it cannot administer, sign in or create tokens. If the call is made
// with a restricted token, the new token has at most the rights and the lifetime of that token.
// CreateRobotToken returns fault.NotFound if there is no such robot, and fault.Conflict if the
// robot has a token with that name.
func (s *Service) CreateRobotToken(ctx context.Context, req *platformv1.CreateRobotTokenRequest) (*platformv1.CreateRobotTokenResponse, error) {
	by, owner := CallerFrom(ctx), robotOwner(req)
	restriction, err := readRestriction(req.GetToken().GetScopes(), req.GetToken().GetRepositories(), owner.Workspace)
	if err != nil {
		return nil, err
	}
	if len(restriction.Scopes) == 0 || slices.Contains(restriction.Scopes, rpc.ScopeAdmin) {
		return nil, fault.Invalid.Newf("scopes of a robot's token must be some of %s", scopesText(robotScopes()))
	}
	if err := by.Restriction.checkChild(restriction); err != nil {
		return nil, err
	}
	expires, err := s.readExpiry(req.GetToken().GetExpires(), by)
	if err != nil {
		return nil, err
	}
	r, err := s.store.robot(ctx, owner, req.GetRobotId())
	if err != nil {
		return nil, fmt.Errorf("reading robot %d: %w", req.GetRobotId(), err)
	}
	t, rec, err := s.createToken(ctx, tokenRecord{user: r.user, robot: &r, name: req.GetToken().GetName(), expires: expires, restriction: restriction})
	if err != nil {
		return nil, err
	}
	return &platformv1.CreateRobotTokenResponse{AccessKey: t.String(), Token: rec.record()}, nil
}

// robotScopes returns the scopes that tokens of robots can have.
func robotScopes() []rpc.Scope {
	return slices.DeleteFunc(rpc.Scopes(), func(s rpc.Scope) bool { return s == rpc.ScopeAdmin })
}

// CheckRobotRole returns fault.Denied if a token may not raise the role of a robot: the tokens of
// the robot may have every scope of robotScopes, and would get rights that the token itself lacks.
func (r Restriction) CheckRobotRole() error {
	for _, s := range robotScopes() {
		if r.Check(s) != nil {
			return errScope("A higher role gives the tokens of the robot more rights, so that an access token with scopes can only set it if it has all of " +
				scopesText(robotScopes()) + "; use a token without scopes")
		}
	}
	return nil
}

// DeleteRobotToken revokes a token of a robot with immediate effect; fault.NotFound if the robot has
// no such token.
func (s *Service) DeleteRobotToken(ctx context.Context, req *platformv1.DeleteRobotTokenRequest) (*platformv1.DeleteRobotTokenResponse, error) {
	r, err := s.store.robot(ctx, robotOwner(req), req.GetRobotId())
	if err != nil {
		return nil, fmt.Errorf("reading robot %d: %w", req.GetRobotId(), err)
	}
	done, err := s.store.deleteRobotToken(ctx, r, req.GetTokenId())
	if err != nil {
		return nil, fmt.Errorf("deleting token %d: %w", req.GetTokenId(), err)
	}
	if !done {
		return nil, fault.NotFound.Newf("No such token")
	}
	return &platformv1.DeleteRobotTokenResponse{}, nil
}
