package orgs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/identity"
)

// A Role is a user's level of permissions in a workspace. Each role includes the permissions of
// all lower roles, so that roles can be compared with <.
type Role int

// Workspace roles in ascending order.
const (
	NoRole Role = iota
	RoleView
	RoleConnect
	RoleLaunch
	RoleMaintain
	RoleAdmin
	RoleOwner
)

// roleNames lists the names of the roles in the REST contract.
func roleNames() []string {
	return []string{"", "view", "connect", "launch", "maintain", "admin", "owner"}
}

// String returns the role's name in the REST contract; "" for NoRole.
func (r Role) String() string { return roleNames()[r] }

// parseRole returns the workspace role with a name, in any case: tower-cli documents the names in
// upper case, and sends what the user typed.
func parseRole(s string) (Role, error) {
	for i, name := range roleNames() {
		if i > 0 && strings.EqualFold(name, s) {
			return Role(i), nil
		}
	}
	return NoRole, fault.Invalid.Newf("role must be one of owner, admin, maintain, launch, connect, view")
}

// An OrgRole is a user's level of permissions in an organisation.
type OrgRole int

// Organisation roles in ascending order.
const (
	NoOrgRole OrgRole = iota
	OrgMember
	OrgOwner
)

// Organisation roles in the REST contract.
const (
	orgRoleOwner  = "owner"
	orgRoleMember = "member"
)

// A Scope names the organisation and the workspace that a call acts on. Org is 0 for calls
// that name a workspace only. With Org 0, Workspace 0 is the caller's personal workspace.
type Scope struct{ Org, Workspace int64 }

// InOrg returns the scope of a path that names a workspace together with its organisation.
// It is never the personal workspace: an org of 0 becomes -1, which does not exist.
func InOrg(org, workspace int64) Scope {
	if org == 0 {
		org = -1
	}
	return Scope{org, workspace}
}

// RequiredRoles are the minimum roles that a call requires in an organisation, in a
// workspace, or in both. Users own their personal workspaces. The zero value requires none.
type RequiredRoles struct {
	Org       OrgRole
	Workspace Role
	// IsOfOwner marks calls for records of either a workspace or an organisation. If the request
	// names a workspace, only Workspace applies; otherwise only Org applies.
	IsOfOwner bool
	// OrAdministrator marks calls for which administrators of the server need no role.
	OrAdministrator bool
}

// of returns the required roles of a call that acts on a scope.
func (r RequiredRoles) of(at Scope) RequiredRoles {
	switch {
	case !r.IsOfOwner:
	case at.Workspace == 0:
		r.Workspace = NoRole
	default:
		r.Org = NoOrgRole
	}
	return r
}

// A Principal is an authorized caller.
type Principal struct {
	identity.Caller
	// Space is the workspace that the call acts on.
	Space Space
	// Role is the caller's role in Space.
	Role Role
	// member is the caller's membership in the call's organisation; the zero member if the
	// caller is not a member.
	member member
}

type principalKey struct{}

// WithPrincipal returns a context that carries p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the authorized caller of a call. Space and Role are set if the call
// requires a workspace role. It returns the zero Principal for an anonymous call.
func PrincipalFrom(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	p.Caller = identity.CallerFrom(ctx)
	return p
}

// CheckAccess returns the principal for a call that acts on a scope. It returns fault.Denied
// unless the caller has the required roles there. A token of one workspace acts in that workspace
// if the call names none.
func (s *Service) CheckAccess(ctx context.Context, c identity.Caller, at Scope, need RequiredRoles) (p Principal, err error) {
	p.Caller = c
	need = need.of(at)
	if c.Restriction.Workspace != 0 && need.Workspace == NoRole {
		return p, c.Restriction.Elsewhere()
	}
	where, err := c.Restriction.In(at.Workspace)
	if err != nil {
		return p, err
	}
	if need.OrAdministrator && c.User.Administrator && c.Restriction.Workspace == 0 {
		return p, s.checkOwner(ctx, at)
	}
	if c.RobotOrg != 0 && at.Org == 0 && where == 0 {
		return p, fault.Denied.Newf("A robot has no personal workspace; name a workspace of its organisation")
	}
	if at.Org == 0 { // in an organisation, 0 does not mean the default workspace
		at.Workspace = where
	}
	if need.Org != NoOrgRole || at.Org != 0 {
		if err := s.checkOrg(ctx, &p, at.Org, need.Org); err != nil {
			return p, err
		}
	}
	if need.Workspace == NoRole {
		return p, nil
	}
	if p.Space, p.Role, err = s.workspaceRole(ctx, p.User.ID, at); err != nil {
		return p, err
	}
	if p.Role < need.Workspace {
		return p, fault.Denied.Newf("This needs the role %s in the workspace; yours is %s", need.Workspace, p.Role)
	}
	return p, nil
}

// checkOwner returns fault.Denied unless the organisation or the workspace of a scope exists.
func (s *Service) checkOwner(ctx context.Context, at Scope) error {
	if at.Workspace == 0 {
		_, err := s.store.org(ctx, at.Org)
		if errors.Is(err, fault.NotFound) {
			return errNoOrg(err)
		}
		return err
	}
	w, _, err := s.store.workspaceFor(ctx, at.Workspace, 0)
	if err == nil && w.OrgID != at.Org || errors.Is(err, fault.NotFound) {
		return errNoWorkspace(err)
	}
	return err
}

// WorkspaceRole returns a workspace and a user's or a robot's role in it. A workspaceID of 0 is
// the user's personal workspace, which is empty for a robot. It returns fault.Denied if the user has no role.
func (s *Service) WorkspaceRole(ctx context.Context, userID, workspaceID int64) (Space, Role, error) {
	return s.workspaceRole(ctx, userID, Scope{Workspace: workspaceID})
}

// checkOrg sets the caller's membership in p. If need is NoOrgRole, the caller need not be a
// member.
func (s *Service) checkOrg(ctx context.Context, p *Principal, org int64, need OrgRole) error {
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
	if need == OrgOwner && m.role != orgRoleOwner {
		return fault.Denied.Newf("This needs the role owner in the organisation; yours is %s", m.role)
	}
	return nil
}

// workspaceRole returns a workspace and a user's role in it. Owners of an organisation own
// its workspaces, and its members may view shared workspaces.
func (s *Service) workspaceRole(ctx context.Context, userID int64, at Scope) (Space, Role, error) {
	if at.Workspace == 0 && at.Org == 0 {
		return Space{Personal: userID}, RoleOwner, nil
	}
	w, roles, err := s.store.workspaceFor(ctx, at.Workspace, userID)
	if errors.Is(err, fault.NotFound) {
		return Space{}, NoRole, errNoWorkspace(err)
	}
	if err != nil {
		return Space{}, NoRole, fmt.Errorf("reading workspace %d: %w", at.Workspace, err)
	}
	r := NoRole
	if roles.participant != "" {
		if r, err = parseRole(roles.participant); err != nil {
			return Space{}, NoRole, err
		}
	}
	switch {
	case roles.org == orgRoleOwner:
		r = RoleOwner
	case roles.org != "" && w.Visibility == visibilityShared:
		r = max(r, RoleView)
	}
	if r == NoRole || at.Org != 0 && at.Org != w.OrgID {
		return Space{}, NoRole, errNoWorkspace(nil)
	}
	return Space{Workspace: w}, r, nil
}

// errNoOrg is returned both for a missing organisation and for one that the caller may not
// see, so that callers cannot probe for organisations.
func errNoOrg(cause error) error {
	return fault.Denied.New("No such organisation, or you are not a member of it", cause)
}

// errNoWorkspace is the same for workspaces.
func errNoWorkspace(cause error) error {
	return fault.Denied.New("No such workspace, or you are not a participant in it", cause)
}

// A Space is a workspace that owns records: a user's personal workspace, or one of an
// organisation.
type Space struct {
	// Personal is the user of a personal workspace; 0 if Workspace is set.
	Personal  int64
	Workspace Workspace
}

// ID returns the workspace's id; 0 for a personal workspace.
func (s Space) ID() int64 { return s.Workspace.ID }
