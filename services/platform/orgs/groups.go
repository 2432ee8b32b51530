package orgs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/identity"
)

// A GroupRole is the role that a group at the sign-in provider gives its users.
type GroupRole struct {
	Group string
	// Org and Workspace are names, in any case. Without a workspace the role is one in the
	// organisation; without either the users are administrators of the platform.
	Org, Workspace string
	Role           string
}

// ParseGroupRoles parses lines such as
//
//	staff=lab                 members of the organisation lab
//	heads=lab:owner           its owners
//	staff=lab/rna:launch      participants of its workspace rna
//	it=administrator          administrators of the platform
//
// The name of a group may contain "=".
func ParseGroupRoles(lines []string) ([]GroupRole, error) {
	var out []GroupRole
	for _, line := range lines {
		r, err := parseGroupRole(line)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

const administrator = "administrator"

func parseGroupRole(line string) (GroupRole, error) {
	i := strings.LastIndex(line, "=")
	if i < 1 || i == len(line)-1 {
		return GroupRole{}, fmt.Errorf("%q must be GROUP=ORGANISATION[:ROLE], GROUP=ORGANISATION/WORKSPACE:ROLE or GROUP=administrator", line)
	}
	r := GroupRole{Group: line[:i]}
	to, role, _ := strings.Cut(line[i+1:], ":")
	r.Org, r.Workspace, _ = strings.Cut(to, "/")
	switch {
	case to == administrator && role == "":
		r.Org = ""
	case r.Org == "":
		return GroupRole{}, fmt.Errorf("%q names no organisation", line)
	case r.Workspace != "" || strings.HasSuffix(to, "/"):
		v, err := parseRole(role)
		if err != nil || r.Workspace == "" {
			return GroupRole{}, fmt.Errorf("%q must end with a workspace and a role in it: owner, admin, maintain, launch, connect or view", line)
		}
		r.Role = v.String()
	case role == "" || role == orgRoleMember:
		r.Role = orgRoleMember
	case role == orgRoleOwner:
		r.Role = orgRoleOwner
	default:
		return GroupRole{}, fmt.Errorf("%q must end with a role in the organisation: owner or member", line)
	}
	return r, nil
}

// Maps reports whether any of the groups has a role.
func (s *Service) Maps(groups []string) bool { return len(s.rolesOf(groups)) > 0 }

// IsAdministrator reports whether any of the groups makes its users administrators.
func (s *Service) IsAdministrator(groups []string) bool {
	return slices.ContainsFunc(s.rolesOf(groups), func(r GroupRole) bool { return r.Org == "" })
}

func (s *Service) rolesOf(groups []string) []GroupRole {
	var out []GroupRole
	for _, r := range s.deps.GroupRoles {
		if slices.Contains(groups, r.Group) {
			out = append(out, r)
		}
	}
	return out
}

// Apply grants a user the roles of the user's groups, and revokes roles that earlier groups
// have granted. If several groups have a role in one organisation or workspace, the highest
// applies. It does not change roles that users have granted. A role in an organisation or
// workspace that does not exist is logged and ignored.
func (s *Service) Apply(ctx context.Context, u identity.User, groups []string) error {
	orgs, workspaces := map[int64]OrgRole{}, map[int64]Role{}
	for _, r := range s.rolesOf(groups) {
		if r.Org == "" {
			continue
		}
		at, err := s.store.targetID(ctx, r)
		if errors.Is(err, fault.NotFound) {
			s.deps.Log.WarnContext(ctx, "oidc_groups names an organisation or workspace that does not exist", "group", r.Group, "organisation", r.Org, "workspace", r.Workspace)
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the place of a role: %w", err)
		}
		if r.Workspace == "" {
			orgs[at] = max(orgs[at], parseOrgRole(r.Role))
		} else if role, err := parseRole(r.Role); err == nil {
			workspaces[at] = max(workspaces[at], role)
		}
	}
	changed, err := s.applyOrgs(ctx, u, orgs)
	more, err2 := s.applyWorkspaces(ctx, u, workspaces)
	if changed || more {
		s.deps.Notifier.Notify(ctx, caller.Change{UserID: u.ID})
	}
	return errors.Join(err, err2)
}

func parseOrgRole(role string) OrgRole {
	if role == orgRoleOwner {
		return OrgOwner
	}
	return OrgMember
}

// name returns the role's name in the REST contract.
func (r OrgRole) name() string {
	if r == OrgOwner {
		return orgRoleOwner
	}
	return orgRoleMember
}

// applyOrgs replaces the roles in organisations that groups have granted the user by the roles
// in wanted, whose keys are ids of organisations. It changes wanted.
func (s *Service) applyOrgs(ctx context.Context, u identity.User, wanted map[int64]OrgRole) (changed bool, err error) {
	have, err := s.store.memberships(ctx, u)
	if err != nil {
		return false, fmt.Errorf("reading the memberships of user %d: %w", u.ID, err)
	}
	for _, m := range have {
		want, isWanted := wanted[m.orgID]
		delete(wanted, m.orgID)
		var done bool
		switch {
		case !m.byGroup || isWanted && parseOrgRole(m.role) == want:
			continue
		case isWanted:
			done, err = s.store.setMemberRole(ctx, m, want.name(), true)
		default:
			done, err = s.store.deleteMemberByGroup(ctx, m)
		}
		if err != nil {
			return changed, fmt.Errorf("writing the membership %d: %w", m.id, err)
		}
		if !done {
			s.deps.Log.WarnContext(ctx, "The last owner of an organisation keeps the role although no group gives it", "user", u.Name, "org_id", m.orgID)
		}
		changed = changed || done
	}
	for org, role := range wanted {
		m := member{id: api.NewID(), orgID: org, role: role.name(), user: u, byGroup: true}
		if err := api.Members.CheckRows(ctx, s.deps.DB, `platform_members WHERE org_id = $1`, org); err != nil {
			return changed, err
		}
		done, err := s.store.insertMember(ctx, m, s.deps.Now())
		if err != nil {
			return changed, fmt.Errorf("writing a member of %d: %w", org, err)
		}
		changed = changed || done
	}
	return changed, nil
}

// applyWorkspaces replaces the roles in workspaces that groups have granted the user by the
// roles in wanted, whose keys are ids of workspaces. It changes wanted.
func (s *Service) applyWorkspaces(ctx context.Context, u identity.User, wanted map[int64]Role) (changed bool, err error) {
	have, err := s.store.participations(ctx, u)
	if err != nil {
		return false, fmt.Errorf("reading the workspaces of user %d: %w", u.ID, err)
	}
	for _, p := range have {
		want, isWanted := wanted[p.workspaceID]
		delete(wanted, p.workspaceID)
		var done bool
		switch {
		case !p.byGroup || isWanted && p.role == want.String():
			continue
		case isWanted:
			done, err = s.store.setParticipantRole(ctx, p, want.String(), true)
		default:
			done, err = s.store.deleteParticipantByGroup(ctx, p)
		}
		if err != nil {
			return changed, fmt.Errorf("writing the participant %d: %w", p.id, err)
		}
		changed = changed || done
	}
	for workspace, role := range wanted {
		p := participant{id: api.NewID(), workspaceID: workspace, role: role.String(), user: u, byGroup: true}
		if err := api.Participants.CheckRows(ctx, s.deps.DB, `platform_participants WHERE workspace_id = $1`, workspace); err != nil {
			return changed, err
		}
		done, err := s.store.insertParticipant(ctx, p, s.deps.Now())
		if err != nil {
			return changed, fmt.Errorf("writing a participant of %d: %w", workspace, err)
		}
		changed = changed || done
	}
	return changed, nil
}

// targetID returns the id of the workspace of a role, or of its organisation if the role has no
// workspace. It returns fault.NotFound if that does not exist.
func (s store) targetID(ctx context.Context, r GroupRole) (id int64, err error) {
	row := s.db.QueryRowContext(ctx, `SELECT id FROM platform_orgs WHERE name_key = $1`, strings.ToLower(r.Org))
	if r.Workspace != "" {
		row = s.db.QueryRowContext(ctx, `
			SELECT w.id FROM platform_workspaces w JOIN platform_orgs o ON o.id = w.org_id WHERE o.name_key = $1 AND w.name_key = $2`,
			strings.ToLower(r.Org), strings.ToLower(r.Workspace))
	}
	return id, s.db.NotFound("organisation or workspace", row.Scan(&id))
}

// memberships returns all memberships of a user.
func (s store) memberships(ctx context.Context, u identity.User) ([]member, error) {
	return sqldb.Listing[member]{
		Read: `SELECT id, org_id, role, by_group FROM platform_members WHERE user_id = $1 ORDER BY id`,
		Scan: func(r *sql.Rows) (member, error) {
			m := member{user: u}
			return m, r.Scan(&m.id, &m.orgID, &m.role, &m.byGroup)
		},
	}.All(ctx, s.db, u.ID)
}

// participations returns a user's roles in workspaces.
func (s store) participations(ctx context.Context, u identity.User) ([]participant, error) {
	return sqldb.Listing[participant]{
		Read: `SELECT id, workspace_id, role, by_group FROM platform_participants WHERE user_id = $1 ORDER BY id`,
		Scan: func(r *sql.Rows) (participant, error) {
			p := participant{user: u}
			return p, r.Scan(&p.id, &p.workspaceID, &p.role, &p.byGroup)
		},
	}.All(ctx, s.db, u.ID)
}
