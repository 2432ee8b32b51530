package credentials

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/orgs"
	"slipway.dev/services/platform/vault"
)

// A record is a row of platform_credentials.
type record struct {
	id                                   string
	space                                orgs.Space
	name, description, provider, baseURL string
	registry                             string // host or host/path; see ContainerReg
	publicKeys                           string // JSON
	envelope                             vault.Envelope
	createdBy                            int64
	created, updated, used               time.Time
}

const recordColumns = `id, name, description, provider, base_url, registry, public_keys, sealed, data_key, key_id, created_by, created_at, updated_at, used_at`

func (c *record) scan(scan func(...any) error) error {
	var created, updated, used int64
	err := scan(&c.id, &c.name, &c.description, &c.provider, &c.baseURL, &c.registry, &c.publicKeys,
		&c.envelope.Sealed, &c.envelope.DataKey, &c.envelope.KeyID, &c.createdBy, &created, &updated, &used)
	c.created, c.updated, c.used = sqldb.Time(created), sqldb.Time(updated), sqldb.Time(used)
	return err
}

// event returns the audit event of a change of a record.
func (c record) event(action string, before, after any) audit.Event {
	return audit.Event{Action: action, WorkspaceID: c.space.ID(), Subject: c.id, Before: before, After: after}
}

// values returns the parts of a record that are not secret, for the audit trail.
func (c record) values() any {
	return map[string]any{"name": c.name, "description": c.description, "provider": c.provider, "baseUrl": c.baseURL, "registry": c.registry}
}

// insertCredentials returns false if the name is taken.
func (s store) insertCredentials(ctx context.Context, c record) (bool, error) {
	return s.audit.Change(ctx, c.event("credentials.create", nil, c.values()), func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
		INSERT INTO platform_credentials (id, user_id, workspace_id, name, name_key, description, provider, base_url, registry,
			public_keys, sealed, data_key, key_id, created_by, created_at, updated_at, used_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, 0) ON CONFLICT DO NOTHING`,
			c.id, c.space.Personal, c.space.ID(), c.name, strings.ToLower(c.name), c.description, c.provider, c.baseURL, c.registry,
			c.publicKeys, c.envelope.Sealed, c.envelope.DataKey, c.envelope.KeyID, c.createdBy, sqldb.Micros(c.created)))
	})
}

// updateCredentials returns false if another record has the name, or the record has changed
// since old was read.
func (s store) updateCredentials(ctx context.Context, c record, old record) (bool, error) {
	return s.audit.Change(ctx, c.event("credentials.update", old.values(), c.values()), func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
		UPDATE platform_credentials SET name = $2, name_key = $3, description = $4, provider = $5, base_url = $6, registry = $7,
			public_keys = $8, sealed = $9, data_key = $10, key_id = $11, updated_at = $12
		WHERE id = $1 AND updated_at = $13`,
			c.id, c.name, strings.ToLower(c.name), c.description, c.provider, c.baseURL, c.registry,
			c.publicKeys, c.envelope.Sealed, c.envelope.DataKey, c.envelope.KeyID, sqldb.Micros(c.updated), sqldb.Micros(old.updated)))
	})
}

// credentials returns a record of a space, or fault.NotFound.
func (s store) credentials(ctx context.Context, in orgs.Space, id string) (record, error) {
	c := record{space: in}
	err := c.scan(s.db.QueryRowContext(ctx, `
		SELECT `+recordColumns+` FROM platform_credentials WHERE id = $1 AND user_id = $2 AND workspace_id = $3`,
		id, in.Personal, in.ID()).Scan)
	return c, s.db.NotFound("credentials", err)
}

func (s store) credentialsIn(ctx context.Context, in orgs.Space) ([]record, error) {
	out, _, err := sqldb.Listing[record]{
		Read: `SELECT ` + recordColumns + ` FROM platform_credentials WHERE user_id = $1 AND workspace_id = $2 ORDER BY name_key LIMIT $3 OFFSET $4`,
		Scan: func(r *sql.Rows) (c record, err error) { return c, c.scan(r.Scan) },
	}.Page(ctx, s.db, sqldb.Page{Limit: 1000}, in.Personal, in.ID())
	return out, err
}

func (s store) hasCredentialsNamed(ctx context.Context, in orgs.Space, name string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM platform_credentials WHERE user_id = $1 AND workspace_id = $2 AND name_key = $3`,
		in.Personal, in.ID(), strings.ToLower(name)).Scan(&n)
	return n > 0, err
}

// registryCredentials returns the records of a space that are for registries or channels,
// the most recently updated first.
func (s store) registryCredentials(ctx context.Context, in orgs.Space) ([]record, error) {
	out, _, err := sqldb.Listing[record]{
		Read: `SELECT ` + recordColumns + ` FROM platform_credentials
			WHERE user_id = $1 AND workspace_id = $2 AND registry <> '' ORDER BY updated_at DESC, id LIMIT $3 OFFSET $4`,
		Scan: func(r *sql.Rows) (c record, err error) { return c, c.scan(r.Scan) },
	}.Page(ctx, s.db, sqldb.Page{Limit: 1000}, in.Personal, in.ID())
	return out, err
}

func (s store) touchCredentials(ctx context.Context, id string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE platform_credentials SET used_at = $2 WHERE id = $1 AND used_at < $2`, id, sqldb.Micros(now))
	return err
}

// deleteCredentials returns false if there is no such record, or it was used at or after since.
func (s store) deleteCredentials(ctx context.Context, in orgs.Space, id string, since time.Time) (bool, error) {
	return s.audit.Change(ctx, record{id: id, space: in}.event("credentials.delete", nil, nil), func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
		DELETE FROM platform_credentials WHERE id = $1 AND user_id = $2 AND workspace_id = $3 AND used_at < $4`,
			id, in.Personal, in.ID(), sqldb.Micros(since)))
	})
}
