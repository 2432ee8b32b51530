package platform

import (
	"context"
	"errors"
	"fmt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/identity"
)

// role is what somebody may do in a workspace; each includes those before it.
type role int

const (
	noRole role = iota
	roleView
	roleConnect
	roleLaunch
	roleMaintain
	roleAdmin
	roleOwner
)

// roleNames are the roles as the contract spells them.
func roleNames() []string {
	return []string{"", "view", "connect", "launch", "maintain", "admin", "owner"}
}

func (r role) String() string { return roleNames()[r] }

// parseRole reads a workspace role.
func parseRole(s string) (role, error) {
	for i, name := range roleNames() {
		if name == s && i > 0 {
			return role(i), nil
		}
	}
	return noRole, fault.Invalid.Newf("role must be one of owner, admin, maintain, launch, connect, view")
}

// orgRole is what somebody may do in an organisation.
type orgRole int

const (
	noMember orgRole = iota
	orgMember
	orgOwner
)

// scope is where a call acts. Without an organisation, workspace 0 is the personal
// one.
type scope struct{ org, workspace int64 }

// inside is a workspace that a path names with its organisation; it is never the
// personal one.
func inside(org, workspace int64) scope {
	if org == 0 {
		org = -1
	}
	return scope{org, workspace}
}

// principal is a caller who was let in.
type principal struct {
	identity.Caller
	// space is where the call acts; its zero workspace is the personal one.
	space space
	// member is the caller's membership in the call's organisation; zero: none.
	member member
	// role is what the caller may do in the workspace.
	role role
}

type principalKey struct{}

// principalFrom is who makes the call; the zero principal where nobody was let in.
func principalFrom(ctx context.Context) principal {
	p, _ := ctx.Value(principalKey{}).(principal)
	return p
}

// enterOrg finds the caller's membership; the call may get by without one.
func (s *Service) enterOrg(ctx context.Context, p *principal, org int64, need orgRole) error {
	m, err := s.store.memberOf(ctx, org, p.User.ID)
	if errors.Is(err, fault.NotFound) && need == noMember {
		return nil
	}
	if errors.Is(err, fault.NotFound) {
		return errNoOrg(err)
	}
	if err != nil {
		return fmt.Errorf("reading the membership in %d: %w", org, err)
	}
	p.member = m
	if need == orgOwner && m.role != "owner" {
		return fault.Denied.Newf("This needs the role owner in the organisation; yours is %s", m.role)
	}
	return nil
}

// enterWorkspace answers a workspace and what a user may do in it. The owner of
// an organisation owns its workspaces; its members may view shared ones.
func (s *Service) enterWorkspace(ctx context.Context, userID int64, at scope) (space, role, error) {
	if at.workspace == 0 && at.org == 0 {
		return space{personal: userID}, roleOwner, nil
	}
	w, in, err := s.store.workspaceFor(ctx, at.workspace, userID)
	if errors.Is(err, fault.NotFound) {
		return space{}, noRole, errNoWorkspace(err)
	}
	if err != nil {
		return space{}, noRole, fmt.Errorf("reading workspace %d: %w", at.workspace, err)
	}
	r := noRole
	if in.participant != "" {
		if r, err = parseRole(in.participant); err != nil {
			return space{}, noRole, err
		}
	}
	switch {
	case in.org == "owner":
		r = roleOwner
	case in.org != "" && w.Visibility == visibilityShared:
		r = max(r, roleView)
	}
	if r == noRole || at.org != 0 && at.org != w.OrgID {
		return space{}, noRole, errNoWorkspace(nil)
	}
	return space{workspace: w}, r, nil
}

// What does not exist and what one may not see is answered alike.
func errNoOrg(cause error) error {
	return fault.Denied.New("There is no such organisation, or you are no member of it", cause)
}

func errNoWorkspace(cause error) error {
	return fault.Denied.New("There is no such workspace, or you are no participant of it", cause)
}

// space is a workspace to keep things in.
type space struct {
	personal  int64 // whose personal workspace; 0: workspace
	workspace workspace
}

// id is the workspace's id; 0 is the personal one.
func (s space) id() int64 { return s.workspace.ID }
