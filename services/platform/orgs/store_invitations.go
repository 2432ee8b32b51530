package orgs

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
)

// An invitation is a role that waits for the first sign-in with an e-mail address.
type invitation struct {
	id, orgID   int64
	workspaceID int64  // 0: the role is one in the organisation
	email       string // as identity.Service.UserOrAddress returns it
	role        string
	invited
}

// invited describes the creation of an invitation. The zero value represents no invitation.
type invited struct {
	by          string // the name of a user, who may be deleted
	at, expires time.Time
}

const invitationColumns = `id, org_id, COALESCE(workspace_id, 0), email, role, invited_by, created_at, expires_at`

func (i *invitation) scan(scan func(...any) error) error {
	return scan(append([]any{&i.id, &i.orgID, &i.workspaceID, &i.email, &i.role}, i.into()...)...)
}

// into returns the scan destinations for invited_by, created_at and expires_at.
func (i *invited) into() []any {
	return []any{&i.by, sqldb.ScanTime(&i.at), sqldb.ScanTime(&i.expires)}
}

// invitedUser are the values of an invitation AS i for identity.UserColumns.
const invitedUser = `0, i.email, i.email, '', '', '', 0, 0, 0, false`

// event returns the audit event for a change of an invitation. The role "" means no invitation.
func (i invitation) event(action, before, after string) audit.Event {
	return audit.Event{Action: action, OrgID: i.orgID, WorkspaceID: i.workspaceID, Subject: i.email, Before: roleValue(before), After: roleValue(after)}
}

// invitation returns the unexpired invitation with the id, organisation and workspace of at, or
// fault.NotFound.
func (s store) invitation(ctx context.Context, at invitation, now time.Time) (i invitation, err error) {
	err = i.scan(s.db.QueryRowContext(ctx, `
		SELECT `+invitationColumns+` FROM platform_invitations
		WHERE org_id = $1 AND COALESCE(workspace_id, 0) = $2 AND id = $3 AND expires_at > $4`, at.orgID, at.workspaceID, at.id, sqldb.Micros(now)).Scan)
	return i, s.db.NotFound("invitation", err)
}

// orgInvitation returns the unexpired invitation of an address to an organisation, or
// fault.NotFound.
func (s store) orgInvitation(ctx context.Context, orgID int64, email string, now time.Time) (i invitation, err error) {
	err = i.scan(s.db.QueryRowContext(ctx, `
		SELECT `+invitationColumns+` FROM platform_invitations
		WHERE org_id = $1 AND workspace_id IS NULL AND email = $2 AND expires_at > $3`, orgID, email, sqldb.Micros(now)).Scan)
	return i, s.db.NotFound("invitation", err)
}

// insertInvitation returns false if the address is invited already. It replaces an expired
// invitation.
func (s store) insertInvitation(ctx context.Context, i invitation) (bool, error) {
	return s.audit.ChangeAll(ctx, i.event("invitation.create", "", i.role), func(t *sql.Tx) (bool, []audit.Event, error) {
		if err := lockOrg(ctx, t, i.orgID); err != nil {
			return false, nil, err
		}
		expired, err := takeInvitations(ctx, t, `org_id = $1 AND COALESCE(workspace_id, 0) = $2 AND email = $3 AND expires_at <= $4`,
			i.orgID, i.workspaceID, i.email, sqldb.Micros(i.at))
		if err != nil {
			return false, nil, err
		}
		done, err := s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_invitations (id, org_id, workspace_id, email, role, invited_by, created_at, expires_at)
			VALUES ($1, $2, NULLIF(CAST($3 AS bigint), 0), $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			i.id, i.orgID, i.workspaceID, i.email, i.role, i.by, sqldb.Micros(i.at), sqldb.Micros(i.expires)))
		return done, expiryEvents(expired), err
	})
}

// lockOrg serializes changes of an organisation until the end of the transaction.
func lockOrg(ctx context.Context, t *sql.Tx, id int64) error {
	_, err := t.ExecContext(ctx, `UPDATE platform_orgs SET created_at = created_at WHERE id = $1`, id)
	return err
}

// setInvitationRole returns false if the invitation has been accepted or revoked since it was read.
func (s store) setInvitationRole(ctx context.Context, i invitation, role string) (bool, error) {
	return s.audit.Change(ctx, i.event("invitation.role", i.role, role), func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `UPDATE platform_invitations SET role = $2 WHERE id = $1`, i.id, role))
	})
}

// deleteInvitation revokes an invitation. With one to an organisation it also revokes those of
// the same address to the organisation's workspaces. It returns false if the invitation has been
// accepted or revoked since it was read.
func (s store) deleteInvitation(ctx context.Context, i invitation) (bool, error) {
	return s.audit.ChangeAll(ctx, i.event("invitation.revoke", i.role, ""), func(t *sql.Tx) (bool, []audit.Event, error) {
		if err := lockOrg(ctx, t, i.orgID); err != nil {
			return false, nil, err
		}
		done, err := s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_invitations WHERE id = $1`, i.id))
		if err != nil || !done || i.workspaceID != 0 {
			return done, nil, err
		}
		more, err := takeInvitations(ctx, t, `org_id = $1 AND email = $2`, i.orgID, i.email)
		var events []audit.Event
		for _, i := range more {
			events = append(events, i.event("invitation.revoke", i.role, ""))
		}
		return true, events, err
	})
}

// takeInvitations deletes and returns the invitations that meet an SQL condition, which must
// never contain user input.
func takeInvitations(ctx context.Context, t *sql.Tx, where string, args ...any) ([]invitation, error) {
	rows, err := t.QueryContext(ctx, `DELETE FROM platform_invitations WHERE `+where+` RETURNING `+invitationColumns, args...)
	if err != nil {
		return nil, err
	}
	return scanInvitations(rows)
}

// expiryEvents returns the audit events for expired invitations.
func expiryEvents(list []invitation) []audit.Event {
	var out []audit.Event
	for _, i := range list {
		e := i.event("invitation.expire", i.role, "")
		e.Actor = audit.Actor{Name: "slipwayd"}
		out = append(out, e)
	}
	return out
}

// hasInvitation reports whether an unexpired invitation of an address exists.
func (s store) hasInvitation(ctx context.Context, email string, now time.Time) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_invitations WHERE email = $1 AND expires_at > $2`, email, sqldb.Micros(now)).Scan(&n)
	return n > 0, s.db.Wrap(err)
}

// waiting returns the unexpired invitations of an address. The order lets concurrent transactions
// lock the organisations without a deadlock.
func waiting(ctx context.Context, t *sql.Tx, email string, now time.Time) ([]invitation, error) {
	rows, err := t.QueryContext(ctx, `
		SELECT `+invitationColumns+` FROM platform_invitations WHERE email = $1 AND expires_at > $2 ORDER BY org_id, id`, email, sqldb.Micros(now))
	if err != nil {
		return nil, err
	}
	return scanInvitations(rows)
}

// scanInvitations reads and closes rows of invitationColumns.
func scanInvitations(rows *sql.Rows) (out []invitation, err error) {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var i invitation
		if err := i.scan(rows.Scan); err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, rows.Err()
}

// accept deletes an invitation and gives its role to a user who has none in its organisation or
// workspace. It returns no events if the invitation has been accepted or revoked since it was
// read.
func (s store) accept(ctx context.Context, t *sql.Tx, old invitation, u identity.User, now time.Time) ([]audit.Event, error) {
	taken, err := takeInvitations(ctx, t, `id = $1 AND expires_at > $2`, old.id, sqldb.Micros(now))
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	i := taken[0]
	e := i.event("invitation.accept", i.role, "")
	e.After = map[string]any{"userId": u.ID, "userName": u.Name, "invitedBy": i.by}
	events := []audit.Event{e}
	if i.workspaceID == 0 {
		m := member{id: api.NewID(), orgID: i.orgID, role: i.role, user: u}
		done, err := s.db.Changed(t.ExecContext(ctx, insertMember, m.values(now)...))
		if done {
			events = append(events, m.event("member.add", "", m.role))
		}
		return events, err
	}
	p := participant{id: api.NewID(), workspaceID: i.workspaceID, role: i.role, user: u}
	done, err := s.db.Changed(t.ExecContext(ctx, insertParticipant, p.values(now)...))
	if done {
		events = append(events, p.event("participant.add", "", p.role))
	}
	return events, err
}

// sweepInvitations deletes up to n expired invitations and reports whether there may be more.
func (s store) sweepInvitations(ctx context.Context, now time.Time, n int) (more bool, err error) {
	err = s.db.Tx(ctx, func(t *sql.Tx) error {
		list, err := takeInvitations(ctx, t, `id IN (
			SELECT id FROM platform_invitations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) AND expires_at <= $1`, sqldb.Micros(now), n)
		if err != nil {
			return err
		}
		more = len(list) == n
		for _, e := range expiryEvents(list) {
			if err := s.audit.Append(ctx, t, e); err != nil {
				return err
			}
		}
		return nil
	})
	return more, err
}
