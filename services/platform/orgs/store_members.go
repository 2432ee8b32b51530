package orgs

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/identity"
)

const memberColumns = `m.id, m.org_id, m.role, ` + identity.UserColumns

func (m *member) scan(scan func(...any) error) error {
	return scan(append([]any{&m.id, &m.orgID, &m.role}, m.user.Into()...)...)
}

// memberOf is a user's membership; fault.NotFound.
func (s store) memberOf(ctx context.Context, orgID, userID int64) (m member, err error) {
	err = m.scan(s.db.QueryRowContext(ctx, `
		SELECT `+memberColumns+` FROM platform_members m JOIN platform_users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.user_id = $2`, orgID, userID).Scan)
	return m, s.db.NotFound("member", err)
}

// member reads one by its id; fault.NotFound.
func (s store) member(ctx context.Context, orgID, id int64) (m member, err error) {
	err = m.scan(s.db.QueryRowContext(ctx, `
		SELECT `+memberColumns+` FROM platform_members m JOIN platform_users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.id = $2`, orgID, id).Scan)
	return m, s.db.NotFound("member", err)
}

// insertMember returns false when the user is one already.
func (s store) insertMember(ctx context.Context, m member, now time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		INSERT INTO platform_members (id, org_id, user_id, role, created_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		m.id, m.orgID, m.user.ID, m.role, sqldb.Micros(now)))
}

func (s store) members(ctx context.Context, orgID int64, p sqldb.Page) ([]member, int, error) {
	const from = ` FROM platform_members m JOIN platform_users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND lower(u.user_name || ' ' || u.email) LIKE $2 ESCAPE '\'`
	return sqldb.Listing[member]{
		Count: `SELECT count(*)` + from,
		Read:  `SELECT ` + memberColumns + from + ` ORDER BY u.user_name LIMIT $3 OFFSET $4`,
		Scan:  func(r *sql.Rows) (m member, err error) { return m, m.scan(r.Scan) },
	}.Page(ctx, s.db, p, orgID, p.Like)
}

// anotherOwner keeps an organisation from being nobody's.
const anotherOwner = `(role <> 'owner' OR EXISTS (
	SELECT 1 FROM platform_members o WHERE o.org_id = $1 AND o.role = 'owner' AND o.id <> $2))`

// setMemberRole returns false when it would take the last owner.
func (s store) setMemberRole(ctx context.Context, m member, role string) (done bool, err error) {
	err = s.lockOrg(ctx, m.orgID, func(t *sql.Tx) error {
		done, err = s.db.Changed(t.ExecContext(ctx, `
			UPDATE platform_members SET role = $3 WHERE org_id = $1 AND id = $2 AND ($3 = 'owner' OR `+anotherOwner+`)`, m.orgID, m.id, role))
		return err
	})
	return done, err
}

// deleteMember also takes them out of the workspaces; it returns false for the
// last owner.
func (s store) deleteMember(ctx context.Context, m member) (done bool, err error) {
	err = s.lockOrg(ctx, m.orgID, func(t *sql.Tx) error {
		done, err = s.db.Changed(t.ExecContext(ctx, `
			DELETE FROM platform_members WHERE org_id = $1 AND id = $2 AND `+anotherOwner, m.orgID, m.id))
		if err != nil || !done {
			return err
		}
		_, err = t.ExecContext(ctx, `
			DELETE FROM platform_participants WHERE user_id = $2
			AND workspace_id IN (SELECT id FROM platform_workspaces WHERE org_id = $1)`, m.orgID, m.user.ID)
		return err
	})
	return done, err
}

// lockOrg lets changes of one organisation's owners go one after the other: two
// owners must not remove each other.
func (s store) lockOrg(ctx context.Context, orgID int64, f func(*sql.Tx) error) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		if _, err := t.ExecContext(ctx, `UPDATE platform_orgs SET created_at = created_at WHERE id = $1`, orgID); err != nil {
			return err
		}
		return f(t)
	})
}
