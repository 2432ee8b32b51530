package orgs

import (
	"context"
	"errors"
	"fmt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/identity"
)

// Role is what somebody may do in a workspace; each includes those before it.
type Role int

// The roles, from the least.
const (
	NoRole Role = iota
	RoleView
	RoleConnect
	RoleLaunch
	RoleMaintain
	RoleAdmin
	RoleOwner
)

// roleNames are the roles as the contract spells them.
func roleNames() []string {
	return []string{"", "view", "connect", "launch", "maintain", "admin", "owner"}
}

// String is the role as the contract spells it; "" for none.
func (r Role) String() string { return roleNames()[r] }

// parseRole reads a workspace role.
func parseRole(s string) (Role, error) {
	for i, name := range roleNames() {
		if name == s && i > 0 {
			return Role(i), nil
		}
	}
	return NoRole, fault.Invalid.Newf("role must be one of owner, admin, maintain, launch, connect, view")
}

// OrgRole is what somebody may do in an organisation.
type OrgRole int

// The roles, from the least.
const (
	NoOrgRole OrgRole = iota
	OrgMember
	OrgOwner
)

// Scope is where a call acts. Without an organisation, workspace 0 is the personal
// one.
type Scope struct{ Org, Workspace int64 }

// Below is a workspace that a path names with its organisation; it is never the
// personal one.
func Below(org, workspace int64) Scope {
	if org == 0 {
		org = -1
	}
	return Scope{org, workspace}
}

// Need is the least role that a call asks for, in an organisation, in a workspace, or
// in both. The personal workspace is its user's own.
type Need struct {
	Org       OrgRole
	Workspace Role
}

// Principal is a caller who was let in.
type Principal struct {
	identity.Caller
	// Space is where the call acts.
	Space Space
	// Role is what the caller may do there.
	Role Role
	// member is the caller's membership in the call's organisation; zero: none.
	member member
}

type principalKey struct{}

// WithPrincipal returns a context that carries p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns who makes the call and, where the call asks for a role, as
// what; the zero Principal where nobody was let in.
func PrincipalFrom(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	p.Caller = identity.CallerFrom(ctx)
	return p
}

// Enter lets a caller into an organisation and a workspace; fault.Denied unless they
// have the roles that the call asks for.
func (s *Service) Enter(ctx context.Context, who identity.Caller, at Scope, need Need) (p Principal, err error) {
	p.Caller = who
	if need.Org != NoOrgRole || at.Org != 0 {
		if err := s.enterOrg(ctx, &p, at.Org, need.Org); err != nil {
			return p, err
		}
	}
	if need.Workspace == NoRole {
		return p, nil
	}
	if p.Space, p.Role, err = s.enterWorkspace(ctx, p.User.ID, at); err != nil {
		return p, err
	}
	if p.Role < need.Workspace {
		return p, fault.Denied.Newf("This needs the role %s in the workspace; yours is %s", need.Workspace, p.Role)
	}
	return p, nil
}

// EnterWorkspace returns a workspace, 0 for the personal one, and what a user may do
// in it; fault.Denied for nothing.
func (s *Service) EnterWorkspace(ctx context.Context, userID, workspaceID int64) (Space, Role, error) {
	return s.enterWorkspace(ctx, userID, Scope{Workspace: workspaceID})
}

// enterOrg finds the caller's membership; the call may get by without one.
func (s *Service) enterOrg(ctx context.Context, p *Principal, org int64, need OrgRole) error {
	m, err := s.store.memberOf(ctx, org, p.User.ID)
	if errors.Is(err, fault.NotFound) && need == NoOrgRole {
		return nil
	}
	if errors.Is(err, fault.NotFound) {
		return errNoOrg(err)
	}
	if err != nil {
		return fmt.Errorf("reading the membership in %d: %w", org, err)
	}
	p.member = m
	if need == OrgOwner && m.role != "owner" {
		return fault.Denied.Newf("This needs the role owner in the organisation; yours is %s", m.role)
	}
	return nil
}

// enterWorkspace returns a workspace and what a user may do in it. The owner of
// an organisation owns its workspaces; its members may view shared ones.
func (s *Service) enterWorkspace(ctx context.Context, userID int64, at Scope) (Space, Role, error) {
	if at.Workspace == 0 && at.Org == 0 {
		return Space{Personal: userID}, RoleOwner, nil
	}
	w, in, err := s.store.workspaceFor(ctx, at.Workspace, userID)
	if errors.Is(err, fault.NotFound) {
		return Space{}, NoRole, errNoWorkspace(err)
	}
	if err != nil {
		return Space{}, NoRole, fmt.Errorf("reading workspace %d: %w", at.Workspace, err)
	}
	r := NoRole
	if in.participant != "" {
		if r, err = parseRole(in.participant); err != nil {
			return Space{}, NoRole, err
		}
	}
	switch {
	case in.org == "owner":
		r = RoleOwner
	case in.org != "" && w.Visibility == visibilityShared:
		r = max(r, RoleView)
	}
	if r == NoRole || at.Org != 0 && at.Org != w.OrgID {
		return Space{}, NoRole, errNoWorkspace(nil)
	}
	return Space{Workspace: w}, r, nil
}

// What does not exist and what one may not see looks alike.
func errNoOrg(cause error) error {
	return fault.Denied.New("No such organisation, or you are not a member of it", cause)
}

func errNoWorkspace(cause error) error {
	return fault.Denied.New("No such workspace, or you are not a participant in it", cause)
}

// Space is a workspace to keep things in.
type Space struct {
	// Personal is whose personal workspace it is; 0: Workspace.
	Personal  int64
	Workspace Workspace
}

// ID is the workspace's id; 0 is the personal one.
func (s Space) ID() int64 { return s.Workspace.ID }
