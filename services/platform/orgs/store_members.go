package orgs

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
)

const memberColumns = `m.id, m.org_id, m.role, ` + identity.UserColumns

func (m *member) scan(scan func(...any) error) error {
	return scan(append([]any{&m.id, &m.orgID, &m.role}, m.user.Into()...)...)
}

// memberOf returns a user's membership, or fault.NotFound.
func (s store) memberOf(ctx context.Context, orgID, userID int64) (m member, err error) {
	err = m.scan(s.db.QueryRowContext(ctx, `
		SELECT `+memberColumns+` FROM platform_members m JOIN platform_users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.user_id = $2`, orgID, userID).Scan)
	return m, s.db.NotFound("member", err)
}

// member returns the membership with an id, or fault.NotFound.
func (s store) member(ctx context.Context, orgID, id int64) (m member, err error) {
	err = m.scan(s.db.QueryRowContext(ctx, `
		SELECT `+memberColumns+` FROM platform_members m JOIN platform_users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.id = $2`, orgID, id).Scan)
	return m, s.db.NotFound("member", err)
}

// event returns the audit event for a change of a membership. The role "" means no membership.
func (m member) event(action, before, after string) audit.Event {
	return audit.Event{Action: action, OrgID: m.orgID, Subject: m.user.Name, Before: roleValue(before), After: roleValue(after)}
}

// roleValue returns a role for the audit trail, or nil if the role is "".
func roleValue(role string) any {
	if role == "" {
		return nil
	}
	return map[string]any{"role": role}
}

const insertMember = `
	INSERT INTO platform_members (id, org_id, user_id, role, created_at, by_group) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`

// values returns the arguments of insertMember.
func (m member) values(now time.Time) []any {
	return []any{m.id, m.orgID, m.user.ID, m.role, sqldb.Micros(now), m.byGroup}
}

// insertMember returns false if the user is a member already. If a user grants the role, it revokes
// the invitation of the user's address.
func (s store) insertMember(ctx context.Context, m member, now time.Time) (bool, error) {
	return s.audit.ChangeAll(ctx, m.event("member.add", "", m.role), func(t *sql.Tx) (bool, []audit.Event, error) {
		if err := lockOrg(ctx, t, m.orgID); err != nil {
			return false, nil, err
		}
		done, err := s.db.Changed(t.ExecContext(ctx, insertMember, m.values(now)...))
		if err != nil || !done || m.byGroup {
			return done, nil, err
		}
		events, err := revokeInvitations(ctx, t, `org_id = $1 AND workspace_id IS NULL AND email = $2`, m.orgID, identity.AddressKey(m.user.Email))
		return true, events, err
	})
}

// members returns a page of the members of an organisation and of the invitations to it. A search
// finds an invitation only by its whole address, since clients that do not know invitations act on
// the first result.
func (s store) members(ctx context.Context, orgID int64, p sqldb.Page, search string, now time.Time) ([]member, int, error) {
	const users = ` FROM platform_members m JOIN platform_users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND lower(u.user_name || ' ' || u.email) LIKE $2 ESCAPE '\'`
	const invitations = ` FROM platform_invitations i
		WHERE i.org_id = $1 AND i.workspace_id IS NULL AND i.expires_at > $3 AND (CAST($4 AS text) = '' OR i.email = $4)`
	return sqldb.Listing[member]{
		Count: `SELECT (SELECT count(*)` + users + `) + (SELECT count(*)` + invitations + `)`,
		// The order is that of users before invitations, user_name and email.
		Read: `SELECT 0, '', 0, 0, ` + memberColumns + users + ` UNION ALL
			SELECT 1, i.invited_by, i.created_at, i.expires_at, i.id, i.org_id, i.role, ` + invitedUser + invitations + `
			ORDER BY 1, 9, 10 LIMIT $5 OFFSET $6`,
		Scan: func(r *sql.Rows) (m member, err error) {
			return m, m.scan(func(into ...any) error { return r.Scan(slices.Concat([]any{new(int)}, m.invited.into(), into)...) })
		},
	}.Page(ctx, s.db, p, orgID, p.Like, sqldb.Micros(now), identity.AddressKey(search))
}

// notLastOwner is an SQL condition on a member: the organisation $1 has an owner besides the
// member $2, or the member is not an owner.
const notLastOwner = `(role <> 'owner' OR EXISTS (
	SELECT 1 FROM platform_members o WHERE o.org_id = $1 AND o.role = 'owner' AND o.id <> $2))`

// setMemberRole sets the role. byGroup records that a group, not a user, has granted it. It
// returns false if the organisation would have no owner left.
func (s store) setMemberRole(ctx context.Context, m member, role string, byGroup bool) (bool, error) {
	return s.changeOwners(ctx, m.event("member.role", m.role, role), func(t *sql.Tx) (bool, []audit.Event, error) {
		done, err := s.db.Changed(t.ExecContext(ctx, `
			UPDATE platform_members SET role = $3, by_group = $4 WHERE org_id = $1 AND id = $2 AND ($3 = 'owner' OR `+notLastOwner+`)`, m.orgID, m.id, role, byGroup))
		return done, nil, err
	})
}

// deleteMember also removes the member from the organisation's workspaces, and ends the member's
// older invitations to both. It returns false for the last owner.
func (s store) deleteMember(ctx context.Context, m member, now time.Time) (bool, error) {
	return s.changeOwners(ctx, m.event("member.remove", m.role, ""), func(t *sql.Tx) (bool, []audit.Event, error) {
		done, err := s.takeMember(ctx, t, m)
		if err != nil || !done {
			return false, nil, err
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO platform_removals (user_id, org_id, removed_at) VALUES ($1, $2, $3)`, m.user.ID, m.orgID, sqldb.Micros(now)); err != nil {
			return false, nil, err
		}
		events, err := revokeInvitations(ctx, t, `org_id = $1 AND email = $2`, m.orgID, identity.AddressKey(m.user.Email))
		return true, events, err
	})
}

// deleteMemberByGroup is deleteMember for a member who has left a group at the sign-in provider. The
// member's invitations stay: users have granted their roles.
func (s store) deleteMemberByGroup(ctx context.Context, m member) (bool, error) {
	return s.changeOwners(ctx, m.event("member.remove", m.role, ""), func(t *sql.Tx) (bool, []audit.Event, error) {
		done, err := s.takeMember(ctx, t, m)
		return done, nil, err
	})
}

// takeMember deletes a member, unless it is the last owner, and the member's roles in workspaces.
func (s store) takeMember(ctx context.Context, t *sql.Tx, m member) (bool, error) {
	done, err := s.db.Changed(t.ExecContext(ctx, `
		DELETE FROM platform_members WHERE org_id = $1 AND id = $2 AND `+notLastOwner, m.orgID, m.id))
	if err != nil || !done {
		return false, err
	}
	_, err = t.ExecContext(ctx, `
		DELETE FROM platform_participants WHERE user_id = $2
		AND workspace_id IN (SELECT id FROM platform_workspaces WHERE org_id = $1)`, m.orgID, m.user.ID)
	return err == nil, err
}

// changeOwners runs f and records the event in a transaction that serializes changes of the
// owners of the event's organisation, so that two owners cannot remove each other concurrently.
func (s store) changeOwners(ctx context.Context, e audit.Event, f func(*sql.Tx) (bool, []audit.Event, error)) (bool, error) {
	return s.audit.ChangeAll(ctx, e, func(t *sql.Tx) (bool, []audit.Event, error) {
		if err := lockOrg(ctx, t, e.OrgID); err != nil {
			return false, nil, err
		}
		return f(t)
	})
}
