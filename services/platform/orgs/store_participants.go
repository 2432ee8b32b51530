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

// A participant is a user with a role in a workspace.
type participant struct {
	id, workspaceID int64
	role            string
	user            identity.User
	memberID        int64 // 0: not a member of the organisation
	orgRole         string
	byGroup         bool // whether a group at the sign-in provider has granted the role
	// invited is set for an invitation in a list of participants, which has no user but an address.
	invited invited
}

const participantColumns = `p.id, p.workspace_id, p.role, COALESCE(m.id, 0), COALESCE(m.role, ''), ` + identity.UserColumns

const participantTables = ` FROM platform_participants p
	JOIN platform_users u ON u.id = p.user_id JOIN platform_workspaces w ON w.id = p.workspace_id
	LEFT JOIN platform_members m ON m.org_id = w.org_id AND m.user_id = p.user_id`

func (p *participant) scan(scan func(...any) error) error {
	return scan(append([]any{&p.id, &p.workspaceID, &p.role, &p.memberID, &p.orgRole}, p.user.Into()...)...)
}

// participant returns the participant with an id, or fault.NotFound.
func (s store) participant(ctx context.Context, workspaceID, id int64) (p participant, err error) {
	err = p.scan(s.db.QueryRowContext(ctx, `
		SELECT `+participantColumns+participantTables+` WHERE p.workspace_id = $1 AND p.id = $2`, workspaceID, id).Scan)
	return p, s.db.NotFound("participant", err)
}

// participantOf returns a user's participation in a workspace, or fault.NotFound.
func (s store) participantOf(ctx context.Context, workspaceID, userID int64) (p participant, err error) {
	err = p.scan(s.db.QueryRowContext(ctx, `
		SELECT `+participantColumns+participantTables+` WHERE p.workspace_id = $1 AND p.user_id = $2`, workspaceID, userID).Scan)
	return p, s.db.NotFound("participant", err)
}

// event returns the audit event for a change of a participant. The role "" means no
// participation.
func (p participant) event(action, before, after string) audit.Event {
	return audit.Event{Action: action, WorkspaceID: p.workspaceID, Subject: p.user.Name, Before: roleValue(before), After: roleValue(after)}
}

const insertParticipant = `
	INSERT INTO platform_participants (id, workspace_id, user_id, role, created_at, by_group) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`

// values returns the arguments of insertParticipant.
func (p participant) values(now time.Time) []any {
	return []any{p.id, p.workspaceID, p.user.ID, p.role, sqldb.Micros(now), p.byGroup}
}

// insertParticipant returns false if the user is a participant already. If a user grants the role,
// it revokes the invitation of the user's address.
func (s store) insertParticipant(ctx context.Context, p participant, now time.Time) (bool, error) {
	return s.audit.ChangeAll(ctx, p.event("participant.add", "", p.role), func(t *sql.Tx) (bool, []audit.Event, error) {
		if err := lockOrgOf(ctx, t, p.workspaceID); err != nil {
			return false, nil, err
		}
		done, err := s.db.Changed(t.ExecContext(ctx, insertParticipant, p.values(now)...))
		if err != nil || !done || p.byGroup {
			return done, nil, err
		}
		events, err := revokeInvitations(ctx, t, `workspace_id = $1 AND email = $2`, p.workspaceID, identity.AddressKey(p.user.Email))
		return true, events, err
	})
}

// participants returns a page of the participants of a workspace and of the invitations to it. A
// search finds invitations as members does.
func (s store) participants(ctx context.Context, workspaceID int64, p sqldb.Page, search string, now time.Time) ([]participant, int, error) {
	const users = participantTables + ` WHERE p.workspace_id = $1 AND lower(u.user_name || ' ' || u.email) LIKE $2 ESCAPE '\'`
	const invitations = ` FROM platform_invitations i
		LEFT JOIN platform_invitations o ON o.org_id = i.org_id AND o.workspace_id IS NULL AND o.email = i.email AND o.expires_at > $3
		WHERE i.workspace_id = $1 AND i.expires_at > $3 AND (CAST($4 AS text) = '' OR i.email = $4)`
	return sqldb.Listing[participant]{
		Count: `SELECT (SELECT count(*)` + users + `) + (SELECT count(*)` + invitations + `)`,
		// The order is that of users before invitations, user_name and email.
		Read: `SELECT 0, '', 0, 0, ` + participantColumns + users + ` UNION ALL
			SELECT 1, i.invited_by, i.created_at, i.expires_at, i.id, i.workspace_id, i.role, COALESCE(o.id, 0), COALESCE(o.role, ''), ` + invitedUser + invitations + `
			ORDER BY 1, 11, 12 LIMIT $5 OFFSET $6`,
		Scan: func(r *sql.Rows) (p participant, err error) {
			return p, p.scan(func(into ...any) error { return r.Scan(slices.Concat([]any{new(int)}, p.invited.into(), into)...) })
		},
	}.Page(ctx, s.db, p, workspaceID, p.Like, sqldb.Micros(now), identity.AddressKey(search))
}

// setParticipantRole sets the role. byGroup records that a group, not a user, has granted it.
func (s store) setParticipantRole(ctx context.Context, p participant, role string, byGroup bool) (bool, error) {
	return s.audit.Change(ctx, p.event("participant.role", p.role, role), func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `UPDATE platform_participants SET role = $3, by_group = $4 WHERE workspace_id = $1 AND id = $2`, p.workspaceID, p.id, role, byGroup))
	})
}

// deleteParticipant also ends the participant's older invitations to the workspace.
func (s store) deleteParticipant(ctx context.Context, p participant, now time.Time) (bool, error) {
	return s.audit.ChangeAll(ctx, p.event("participant.remove", p.role, ""), func(t *sql.Tx) (bool, []audit.Event, error) {
		if err := lockOrgOf(ctx, t, p.workspaceID); err != nil {
			return false, nil, err
		}
		done, err := s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_participants WHERE workspace_id = $1 AND id = $2`, p.workspaceID, p.id))
		if err != nil || !done {
			return false, nil, err
		}
		_, err = t.ExecContext(ctx, `
			INSERT INTO platform_removals (user_id, org_id, workspace_id, removed_at)
			SELECT CAST($1 AS bigint), w.org_id, w.id, CAST($3 AS bigint) FROM platform_workspaces w WHERE w.id = $2`, p.user.ID, p.workspaceID, sqldb.Micros(now))
		if err != nil {
			return false, nil, err
		}
		events, err := revokeInvitations(ctx, t, `workspace_id = $1 AND email = $2`, p.workspaceID, identity.AddressKey(p.user.Email))
		return true, events, err
	})
}

// deleteParticipantByGroup is deleteParticipant for a user who has left a group, see
// deleteMemberByGroup.
func (s store) deleteParticipantByGroup(ctx context.Context, p participant) (bool, error) {
	return s.audit.Change(ctx, p.event("participant.remove", p.role, ""), func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_participants WHERE workspace_id = $1 AND id = $2`, p.workspaceID, p.id))
	})
}
