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

// waiting returns the unexpired invitations of an address, at most limits.InvitationsPerAddress.
// The order lets concurrent transactions lock the organisations without a deadlock.
func (s store) waiting(ctx context.Context, q rowQuerier, email string, now time.Time) ([]invitation, error) {
	rows, err := q.QueryContext(ctx, `
		SELECT `+invitationColumns+` FROM platform_invitations WHERE email = $1 AND expires_at > $2 ORDER BY org_id, id LIMIT $3`,
		email, sqldb.Micros(now), limits.InvitationsPerAddress)
	if err != nil {
		return nil, s.db.Wrap(err)
	}
	return scanInvitations(rows)
}

// A rowQuerier is a database or a transaction.
type rowQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// accept gives the role of an invitation to a user and deletes the invitation. The role of a user
// who has one in the organisation or workspace stays, unless a group has granted it. An invitation
// whose inviter may not grant the role anymore, or that is older than the user's removal, is
// revoked instead. The transaction locks the organisation.
func (s store) accept(ctx context.Context, t *sql.Tx, old invitation, u identity.User, now time.Time) (out identity.Accepted, err error) {
	if err := lockOrg(ctx, t, old.orgID); err != nil {
		if errors.Is(err, fault.NotFound) { // the invitation was deleted, too
			return out, nil
		}
		return out, err
	}
	isValid, err := old.isValid(ctx, t, u)
	if err != nil {
		return out, err
	}
	if !isValid {
		out.Events, err = revokeInvitations(ctx, t, `id = $1`, old.id)
		return out, err
	}
	role, byGroup, err := old.roleOf(ctx, t, u)
	if err != nil {
		return out, err
	}
	if role == "" {
		if out.Full, err = old.isFull(ctx, t); err != nil || out.Full {
			return out, err
		}
	}
	taken, err := takeInvitations(ctx, t, `id = $1 AND expires_at > $2`, old.id, sqldb.Micros(now))
	if err != nil || len(taken) == 0 {
		return out, err
	}
	i := taken[0]
	granted := i.role
	if role != "" {
		granted = role
		if byGroup && i.isAbove(role) {
			granted = i.role
		}
	}
	e := i.event("invitation.accept", i.role, "")
	e.After = map[string]any{"userId": u.ID, "userName": u.Name, "invitedBy": i.by, "role": granted}
	out.Events, out.Granted = append(out.Events, e), true
	change, err := i.grant(ctx, t, u, role, granted, now)
	if change.Action != "" {
		out.Events = append(out.Events, change)
	}
	return out, err
}

// isAbove reports whether the role of an invitation is above another role in the same place.
func (i invitation) isAbove(role string) bool {
	if i.workspaceID == 0 {
		return parseOrgRole(i.role) > parseOrgRole(role)
	}
	a, _ := parseRole(i.role)
	b, _ := parseRole(role)
	return a > b
}

// grant makes a role one that a user has granted. had is the user's role before, or "". It returns
// the audit event to append; its action is "" if the role does not change.
func (i invitation) grant(ctx context.Context, t *sql.Tx, u identity.User, had, role string, now time.Time) (e audit.Event, err error) {
	m, p := member{id: api.NewID(), orgID: i.orgID, role: role, user: u}, participant{id: api.NewID(), workspaceID: i.workspaceID, role: role, user: u}
	switch {
	case had == "" && i.workspaceID == 0:
		_, err = t.ExecContext(ctx, insertMember, m.values(now)...)
		return m.event("member.add", "", role), err
	case had == "":
		_, err = t.ExecContext(ctx, insertParticipant, p.values(now)...)
		return p.event("participant.add", "", role), err
	case i.workspaceID == 0:
		_, err = t.ExecContext(ctx, `UPDATE platform_members SET role = $3, by_group = false WHERE org_id = $1 AND user_id = $2`, i.orgID, u.ID, role)
		e = m.event("member.role", had, role)
	default:
		_, err = t.ExecContext(ctx, `UPDATE platform_participants SET role = $3, by_group = false WHERE workspace_id = $1 AND user_id = $2`, i.workspaceID, u.ID, role)
		e = p.event("participant.role", had, role)
	}
	if had == role {
		e = audit.Event{}
	}
	return e, err
}

// roleOf returns the role of a user in the place of an invitation, or "", and whether a group has
// granted it.
func (i invitation) roleOf(ctx context.Context, t *sql.Tx, u identity.User) (role string, byGroup bool, err error) {
	q, id := `SELECT role, by_group FROM platform_members WHERE org_id = $1 AND user_id = $2`, i.orgID
	if i.workspaceID != 0 {
		q, id = `SELECT role, by_group FROM platform_participants WHERE workspace_id = $1 AND user_id = $2`, i.workspaceID
	}
	err = t.QueryRowContext(ctx, q, id, u.ID).Scan(&role, &byGroup)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return role, byGroup, err
}

// isFull reports whether an invitation's organisation or workspace can have no more users.
func (i invitation) isFull(ctx context.Context, t *sql.Tx) (bool, error) {
	c := storedCount{api.Members, `SELECT count(*) FROM platform_members WHERE org_id = $1`, []any{i.orgID}}
	if i.workspaceID != 0 {
		c = storedCount{api.Participants, `SELECT count(*) FROM platform_participants WHERE workspace_id = $1`, []any{i.workspaceID}}
	}
	err := c.check(ctx, t)
	if errors.Is(err, fault.Invalid) {
		return true, nil
	}
	return false, err
}

// isValid reports whether the inviter is enabled and may still grant the role, and no user has
// removed u from the organisation or workspace since the invitation.
func (i invitation) isValid(ctx context.Context, t *sql.Tx, u identity.User) (bool, error) {
	var removals int
	err := t.QueryRowContext(ctx, `
		SELECT count(*) FROM platform_removals
		WHERE user_id = $1 AND org_id = $2 AND (workspace_id IS NULL OR workspace_id = $3) AND removed_at >= $4`,
		u.ID, i.orgID, i.workspaceID, sqldb.Micros(i.at)).Scan(&removals)
	if err != nil || removals > 0 {
		return false, err
	}
	var isOwner int
	err = t.QueryRowContext(ctx, `
		SELECT count(*) FROM platform_members m JOIN platform_users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.user_id = $2 AND m.role = 'owner' AND u.disabled_at = 0`, i.orgID, i.inviter).Scan(&isOwner)
	if err != nil || isOwner > 0 || i.workspaceID == 0 {
		return isOwner > 0, err
	}
	var name string
	err = t.QueryRowContext(ctx, `
		SELECT COALESCE(max(p.role), '') FROM platform_participants p JOIN platform_users u ON u.id = p.user_id
		WHERE p.workspace_id = $1 AND p.user_id = $2 AND u.disabled_at = 0`, i.workspaceID, i.inviter).Scan(&name)
	if err != nil || name == "" {
		return false, err
	}
	has, err := parseRole(name)
	return has >= RoleAdmin && !i.isAbove(name), err
}
