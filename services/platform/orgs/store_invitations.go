package orgs

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
)

// An invitation is a role that waits for the first sign-in with an e-mail address.
type invitation struct {
	id, orgID   int64
	workspaceID int64  // 0: the role is one in the organisation
	email       string // as identity.AddressKey returns it
	role        string
	inviter     int64 // the user who granted the role, who may be deleted
	invited
}

// invited describes the creation of an invitation. The zero value represents no invitation.
type invited struct {
	by          string // the inviter's name
	at, expires time.Time
}

const invitationColumns = `id, org_id, COALESCE(workspace_id, 0), email, role, inviter_id, invited_by, created_at, expires_at`

func (i *invitation) scan(scan func(...any) error) error {
	return scan(append([]any{&i.id, &i.orgID, &i.workspaceID, &i.email, &i.role, &i.inviter}, i.into()...)...)
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
// invitation. It returns fault.Invalid at a limit, and fault.NotFound if the organisation or
// workspace does not exist.
func (s store) insertInvitation(ctx context.Context, i invitation) (bool, error) {
	return s.audit.Change(ctx, i.event("invitation.create", "", i.role), func(t *sql.Tx) (bool, error) {
		if err := lockOrg(ctx, t, i.orgID); err != nil {
			return false, err
		}
		expired, err := takeInvitations(ctx, t, `org_id = $1 AND COALESCE(workspace_id, 0) = $2 AND email = $3 AND expires_at <= $4`,
			i.orgID, i.workspaceID, i.email, sqldb.Micros(i.at))
		if err != nil {
			return false, err
		}
		if err := i.checkCounts(ctx, t); err != nil {
			return false, err
		}
		done, err := s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_invitations (id, org_id, workspace_id, email, role, inviter_id, invited_by, created_at, expires_at)
			VALUES ($1, $2, NULLIF(CAST($3 AS bigint), 0), $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
			i.id, i.orgID, i.workspaceID, i.email, i.role, i.inviter, i.by, sqldb.Micros(i.at), sqldb.Micros(i.expires)))
		if err != nil || !done {
			return false, err
		}
		return true, s.audit.AppendAll(ctx, t, expiryEvents(expired))
	})
}

// checkCounts returns fault.Invalid if one more invitation would exceed a limit, and fault.NotFound
// if the workspace does not exist. Another address may exceed its limit at the same time in another
// organisation: waiting returns no more than the limit.
func (i invitation) checkCounts(ctx context.Context, t *sql.Tx) error {
	const count = `SELECT count(*) FROM platform_invitations WHERE expires_at > $2 AND `
	now := sqldb.Micros(i.at)
	checks := []storedCount{{api.Invitations, count + `org_id = $1`, []any{i.orgID, now}}, {api.AddressInvitations, count + `email = $1`, []any{i.email, now}}}
	if i.workspaceID != 0 {
		var exists int
		if err := t.QueryRowContext(ctx, `SELECT count(*) FROM platform_workspaces WHERE id = $1`, i.workspaceID).Scan(&exists); err != nil {
			return err
		}
		if exists == 0 {
			return fault.NotFound.Newf("No such workspace")
		}
		checks = append(checks, storedCount{api.WorkspaceInvitations, count + `workspace_id = $1`, []any{i.workspaceID, now}})
	}
	for _, c := range checks {
		if err := c.check(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// A storedCount counts objects whose number is limited.
type storedCount struct {
	kind  api.Stored
	query string
	args  []any
}

func (c storedCount) check(ctx context.Context, t *sql.Tx) error {
	var n int
	if err := t.QueryRowContext(ctx, c.query, c.args...).Scan(&n); err != nil {
		return err
	}
	return c.kind.Check(n)
}

// lockOrg serializes changes of an organisation until the end of the transaction. It returns
// fault.NotFound if the organisation does not exist.
func lockOrg(ctx context.Context, t *sql.Tx, id int64) error {
	res, err := t.ExecContext(ctx, `UPDATE platform_orgs SET created_at = created_at WHERE id = $1`, id)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = fault.NotFound.Newf("No such organisation")
	}
	return err
}

// lockOrgOf is lockOrg for the organisation of a workspace.
func lockOrgOf(ctx context.Context, t *sql.Tx, workspaceID int64) error {
	var id int64
	err := t.QueryRowContext(ctx, `SELECT org_id FROM platform_workspaces WHERE id = $1`, workspaceID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return fault.NotFound.Newf("No such workspace")
	}
	if err != nil {
		return err
	}
	return lockOrg(ctx, t, id)
}

// setInvitationRole sets the role, which inviter grants. It returns false if the invitation has
// changed since it was read.
func (s store) setInvitationRole(ctx context.Context, i invitation, role string, inviter identity.User, now time.Time) (bool, error) {
	return s.audit.Change(ctx, i.event("invitation.role", i.role, role), func(t *sql.Tx) (bool, error) {
		if err := lockOrg(ctx, t, i.orgID); err != nil {
			return false, err
		}
		return s.db.Changed(t.ExecContext(ctx, `
			UPDATE platform_invitations SET role = $2, inviter_id = $3, invited_by = $4 WHERE id = $1 AND role = $5 AND expires_at > $6`,
			i.id, role, inviter.ID, inviter.Name, i.role, sqldb.Micros(now)))
	})
}

// deleteInvitation revokes an invitation. With one to an organisation it also revokes those of
// the same address to the organisation's workspaces. It returns false if the invitation has
// changed since it was read.
func (s store) deleteInvitation(ctx context.Context, i invitation) (bool, error) {
	return s.audit.ChangeAll(ctx, i.event("invitation.revoke", i.role, ""), func(t *sql.Tx) (bool, []audit.Event, error) {
		if err := lockOrg(ctx, t, i.orgID); err != nil {
			return false, nil, err
		}
		done, err := s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_invitations WHERE id = $1 AND role = $2`, i.id, i.role))
		if err != nil || !done || i.workspaceID != 0 {
			return done, nil, err
		}
		more, err := revokeInvitations(ctx, t, `org_id = $1 AND email = $2`, i.orgID, i.email)
		return true, more, err
	})
}

// takeInvitations deletes and returns the invitations that meet an SQL condition, which must
// never contain user input.
func takeInvitations(ctx context.Context, t *sql.Tx, where string, args ...any) ([]invitation, error) {
	q := `DELETE FROM platform_invitations WHERE ` + where + ` RETURNING ` + invitationColumns //nolint:gosec // conditions of this package
	rows, err := t.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	return scanInvitations(rows)
}

// revokeInvitations is takeInvitations, but returns the audit events to append.
func revokeInvitations(ctx context.Context, t *sql.Tx, where string, args ...any) (out []audit.Event, err error) {
	list, err := takeInvitations(ctx, t, where, args...)
	for _, i := range list {
		out = append(out, i.event("invitation.revoke", i.role, ""))
	}
	return out, err
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

// sweepInvitations deletes up to n expired invitations and reports whether there may be more. It
// also deletes removals that are older than all invitations.
func (s store) sweepInvitations(ctx context.Context, now time.Time, n int) (more bool, err error) {
	err = s.db.Tx(ctx, func(t *sql.Tx) error {
		list, err := takeInvitations(ctx, t, `id IN (
			SELECT id FROM platform_invitations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) AND expires_at <= $1`, sqldb.Micros(now), n)
		if err != nil {
			return err
		}
		more = len(list) == n
		if _, err := t.ExecContext(ctx, `DELETE FROM platform_removals WHERE removed_at <= $1`, sqldb.Micros(now.Add(-limits.InvitationLife))); err != nil {
			return err
		}
		return s.audit.AppendAll(ctx, t, expiryEvents(list))
	})
	return more, err
}
