package orgs

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
)

// An org is a row of platform_orgs.
type org struct {
	ID                                             int64
	Name, FullName, Description, Location, Website string
}

// A member is a user's membership in an organisation.
type member struct {
	id, orgID int64
	role      string // owner or member
	user      identity.User
	byGroup   bool // whether a group at the sign-in provider has granted the role
	// invited is set for an invitation in a list of members, which has no user but an address.
	invited invited
}

const orgColumns = `o.id, o.name, o.full_name, o.description, o.location, o.website`

func (o *org) into() []any {
	return []any{&o.ID, &o.Name, &o.FullName, &o.Description, &o.Location, &o.Website}
}

// insertOrg stores an organisation and its owner. It returns false if the name is taken.
func (s store) insertOrg(ctx context.Context, o org, owner member, now time.Time) (bool, error) {
	e := audit.Event{Action: "organization.create", OrgID: o.ID, Subject: o.Name, After: o.values()}
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		created, err := s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_orgs (id, name, name_key, full_name, description, location, website, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			o.ID, o.Name, strings.ToLower(o.Name), o.FullName, o.Description, o.Location, o.Website, sqldb.Micros(now)))
		if err != nil || !created {
			return false, err
		}
		_, err = t.ExecContext(ctx, `INSERT INTO platform_members (id, org_id, user_id, role, created_at) VALUES ($1, $2, $3, 'owner', $4)`,
			owner.id, o.ID, owner.user.ID, sqldb.Micros(now))
		return err == nil, err
	})
}

// values returns an organisation for the audit trail.
func (o org) values() map[string]any {
	return map[string]any{"name": o.Name, "fullName": o.FullName, "description": o.Description, "location": o.Location, "website": o.Website}
}

func (s store) org(ctx context.Context, id int64) (org, error) {
	var o org
	err := s.db.QueryRowContext(ctx, `SELECT `+orgColumns+` FROM platform_orgs o WHERE o.id = $1`, id).Scan(o.into()...)
	return o, s.db.NotFound("organisation", err)
}

func (s store) hasOrgNamed(ctx context.Context, name string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_orgs WHERE name_key = $1`, strings.ToLower(name)).Scan(&n)
	return n > 0, err
}

// updateOrg returns false if another organisation has the name.
func (s store) updateOrg(ctx context.Context, old, o org) (bool, error) {
	e := audit.Event{Action: "organization.update", OrgID: o.ID, Subject: o.Name, Before: old.values(), After: o.values()}
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
			UPDATE platform_orgs SET name = $2, name_key = $3, full_name = $4, description = $5, location = $6, website = $7
			WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM platform_orgs WHERE name_key = $3 AND id <> $1)`,
			o.ID, o.Name, strings.ToLower(o.Name), o.FullName, o.Description, o.Location, o.Website))
	})
}

// deleteOrg deletes an organisation with its robots. It returns false if it has workspaces.
func (s store) deleteOrg(ctx context.Context, id int64) (bool, error) {
	e := audit.Event{Action: "organization.delete", OrgID: id, Subject: strconv.FormatInt(id, 10)}
	return s.changeWithRobots(ctx, e, id, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
			DELETE FROM platform_orgs WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM platform_workspaces WHERE org_id = $1)`, id))
	})
}

// A membership is an organisation with a user's membership in it.
type membership struct {
	org    org
	member member
}

// orgsOf returns a page of a user's organisations and their total number.
func (s store) orgsOf(ctx context.Context, userID int64, p sqldb.Page) ([]membership, int, error) {
	const from = ` FROM platform_members m JOIN platform_orgs o ON o.id = m.org_id WHERE m.user_id = $1 AND o.name_key LIKE $2 ESCAPE '\'`
	return sqldb.Listing[membership]{
		Count: `SELECT count(*)` + from,
		Read:  `SELECT m.id, m.role, ` + orgColumns + from + ` ORDER BY o.name_key LIMIT $3 OFFSET $4`,
		Scan: func(r *sql.Rows) (membership, error) {
			var m membership
			err := r.Scan(append([]any{&m.member.id, &m.member.role}, m.org.into()...)...)
			return m, err
		},
	}.Page(ctx, s.db, p, userID, p.Like)
}
