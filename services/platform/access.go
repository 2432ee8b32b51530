package platform

import (
	"context"
	"errors"
	"fmt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
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

// rule is what a call asks for: signed in at least; in an organisation, in a
// workspace, or both. The personal workspace is its user's own.
type rule struct {
	org       orgRole
	workspace role
}

// rules is the one place that says who may do what
// (gateway/contract/platform.md#roles). A call that is not here is refused.
func rules() map[string]rule {
	const in, owns = orgMember, orgOwner
	return map[string]rule{
		"GetUserInfo": {}, "ListUserWorkspaces": {}, "ListComputeEnvs": {workspace: roleView},
		"ListTokens": {}, "CreateToken": {}, "DeleteToken": {}, "DeleteAllTokens": {},

		"ListOrganizations": {}, "CreateOrganization": {}, "ValidateOrganizationName": {},
		"DescribeOrganization": {org: in}, "UpdateOrganization": {org: owns}, "DeleteOrganization": {org: owns},
		"ListMembers": {org: in}, "LeaveOrganization": {org: in},
		"AddMember": {org: owns}, "UpdateMemberRole": {org: owns}, "DeleteMember": {org: owns},

		"ListWorkspaces": {org: in}, "ValidateWorkspaceName": {org: in}, "CreateWorkspace": {org: owns},
		"DescribeWorkspace": {workspace: roleView}, "UpdateWorkspace": {workspace: roleAdmin}, "DeleteWorkspace": {workspace: roleOwner},
		"ListParticipants": {workspace: roleView},
		"AddParticipant":   {workspace: roleAdmin}, "UpdateParticipantRole": {workspace: roleAdmin}, "DeleteParticipant": {workspace: roleAdmin},

		"ListCredentials": {workspace: roleView}, "DescribeCredentials": {workspace: roleView}, "ValidateCredentialsName": {workspace: roleView},
		"CreateCredentials": {workspace: roleMaintain}, "UpdateCredentials": {workspace: roleMaintain}, "DeleteCredentials": {workspace: roleMaintain},
		"GetCredentialsKeys": {workspace: usesCredentials},

		"ListWorkflows": {workspace: roleView}, "DescribeWorkflow": {workspace: roleView}, "ValidateWorkflowName": {workspace: roleView},
		"GetWorkflowProgress": {workspace: roleView}, "GetWorkflowMetrics": {workspace: roleView}, "GetWorkflowLaunch": {workspace: roleView},
		"ListTasks": {workspace: roleView}, "DescribeTask": {workspace: roleView},
		"UpdateWorkflow": {workspace: roleLaunch}, "DeleteWorkflow": {workspace: roleLaunch}, "DeleteWorkflows": {workspace: roleLaunch}, "CancelWorkflow": {workspace: roleLaunch},
		"CreateTrace": {workspace: roleLaunch}, "BeginTrace": {workspace: roleLaunch}, "RecordProgress": {workspace: roleLaunch},
		"RecordHeartbeat": {workspace: roleLaunch}, "CompleteTrace": {workspace: roleLaunch},
	}
}

// place is where a call acts. Without an organisation, workspace 0 is the
// personal one.
type place struct{ org, workspace int64 }

// inside is a workspace that a path names with its organisation; it is never the
// personal one.
func inside(org, workspace int64) place {
	if org == 0 {
		org = -1
	}
	return place{org, workspace}
}

// principal is a caller who was let in.
type principal struct {
	user  user
	token int64
	// space is where the call acts; its zero workspace is the personal one.
	space space
	// member is the caller's membership in the call's organisation; zero: none.
	member member
	// role is what the caller may do in the workspace.
	role role
}

// admit lets a REST caller in: the token is good, its limit is not used up, and
// the rule of the call holds at the place. Every handler with a REST door begins
// with it.
func (s *Service) admit(ctx context.Context, call string, at place) (principal, error) {
	access, ok := s.rules[call]
	if !ok {
		return principal{}, fmt.Errorf("the call %s has no rule", call)
	}
	secret, err := presented(rpc.CallFrom(ctx).Authorization)
	if err != nil {
		return principal{}, err
	}
	rec, err := s.authenticate(ctx, secret)
	if err != nil {
		return principal{}, err
	}
	if err := s.charge(ctx, rec.id); err != nil {
		return principal{}, err
	}
	p := principal{user: rec.user, token: rec.id}
	if access.org != noMember || at.org != 0 {
		if err := s.enterOrg(ctx, &p, at.org, access.org); err != nil {
			return principal{}, err
		}
	}
	if access.workspace == noRole {
		return p, nil
	}
	p.space, p.role, err = s.enterWorkspace(ctx, p.user.ID, at)
	if err != nil {
		return principal{}, err
	}
	if p.role < access.workspace {
		return principal{}, fault.Denied.Newf("This needs the role %s in the workspace; yours is %s", access.workspace, p.role)
	}
	return p, nil
}

// enterOrg finds the caller's membership; the call may get by without one.
func (s *Service) enterOrg(ctx context.Context, p *principal, org int64, need orgRole) error {
	m, err := s.store.memberOf(ctx, org, p.user.ID)
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
func (s *Service) enterWorkspace(ctx context.Context, userID int64, at place) (space, role, error) {
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
