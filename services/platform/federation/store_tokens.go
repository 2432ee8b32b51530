package federation

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
)

const delegatedColumns = `id, endpoint, user_id, sealed, data_key, key_id, renewed_at, used_at`

func (g *delegatedToken) scan(scan func(...any) error) error {
	var renewed, used int64
	err := scan(&g.id, &g.endpoint, &g.userID, &g.envelope.Sealed, &g.envelope.DataKey, &g.envelope.KeyID, &renewed, &used)
	g.renewed, g.used = sqldb.Time(renewed), sqldb.Time(used)
	return err
}

// addDelegated inserts a delegated token unless it exists.
func (s store) addDelegated(ctx context.Context, g delegatedToken, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_grants (id, endpoint, user_id, sealed, data_key, key_id, renewed_at, busy_until, used_at)
		VALUES ($1, $2, $3, $4, $5, $6, 0, 0, $7) ON CONFLICT (id) DO NOTHING`,
		g.id, g.endpoint, g.userID, g.envelope.Sealed, g.envelope.DataKey, g.envelope.KeyID, sqldb.Micros(now))
	return s.db.Wrap(err)
}

// putDelegated stores a delegated token and releases its claim, unless a newer version is
// stored.
func (s store) putDelegated(ctx context.Context, g delegatedToken, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_grants (id, endpoint, user_id, sealed, data_key, key_id, renewed_at, busy_until, used_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8)
		ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, sealed = excluded.sealed, data_key = excluded.data_key,
			key_id = excluded.key_id, renewed_at = excluded.renewed_at, busy_until = 0, used_at = excluded.used_at
		WHERE platform_grants.renewed_at <= excluded.renewed_at`,
		g.id, g.endpoint, g.userID, g.envelope.Sealed, g.envelope.DataKey, g.envelope.KeyID, sqldb.Micros(g.renewed), sqldb.Micros(now))
	return s.db.Wrap(err)
}

// delegatedToken returns the delegated token with an id, or fault.NotFound.
func (s store) delegatedToken(ctx context.Context, id string) (delegatedToken, error) {
	var g delegatedToken
	err := g.scan(s.db.QueryRowContext(ctx, `SELECT `+delegatedColumns+` FROM platform_grants WHERE id = $1`, id).Scan)
	return g, s.db.NotFound("grant", err)
}

// delegatedOf returns the three delegated tokens that a user has used most recently.
func (s store) delegatedOf(ctx context.Context, endpoint string, userID int64) ([]delegatedToken, error) {
	out, _, err := sqldb.Listing[delegatedToken]{
		Read: `SELECT ` + delegatedColumns + ` FROM platform_grants WHERE endpoint = $1 AND user_id = $2 ORDER BY used_at DESC, id LIMIT $3 OFFSET $4`,
		Scan: func(r *sql.Rows) (g delegatedToken, err error) { return g, g.scan(r.Scan) },
	}.Page(ctx, s.db, sqldb.Page{Limit: 3}, endpoint, userID)
	return out, err
}

// claimDelegated claims a version of a delegated token until a time. It returns false if
// another process holds the claim or a newer version is stored.
func (s store) claimDelegated(ctx context.Context, g delegatedToken, now, until time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		UPDATE platform_grants SET busy_until = $4 WHERE id = $1 AND renewed_at = $2 AND busy_until < $3`,
		g.id, sqldb.Micros(g.renewed), sqldb.Micros(now), sqldb.Micros(until)))
}

func (s store) releaseDelegated(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE platform_grants SET busy_until = 0 WHERE id = $1`, id)
	return err
}

// deleteDelegated deletes a delegated token unless a newer version is stored.
func (s store) deleteDelegated(ctx context.Context, id string, renewed time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_grants WHERE id = $1 AND renewed_at = $2`, id, sqldb.Micros(renewed))
	return err
}

// deleteUnused deletes delegated tokens that have not been used since the given time.
func (s store) deleteUnused(ctx context.Context, since time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_grants WHERE used_at < $1`, sqldb.Micros(since))
	return err
}

// peer returns the pairing with another platform, without its decrypted key, or fault.NotFound.
func (s store) peer(ctx context.Context, endpoint string) (peer, error) {
	p := peer{endpoint: endpoint}
	var created, expires int64
	err := s.db.QueryRowContext(ctx, `
		SELECT pairing, sealed, data_key, key_id, created_at, expires_at FROM platform_peers WHERE id = $1`, endpoint).
		Scan(&p.pairing, &p.envelope.Sealed, &p.envelope.DataKey, &p.envelope.KeyID, &created, &expires)
	p.created, p.expires = sqldb.Time(created), sqldb.Time(expires)
	return p, s.db.NotFound("pairing", err)
}

// putPeer stores the pairing with a platform in place of an earlier one.
func (s store) putPeer(ctx context.Context, p peer) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_peers (id, pairing, sealed, data_key, key_id, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET pairing = excluded.pairing, sealed = excluded.sealed, data_key = excluded.data_key,
			key_id = excluded.key_id, created_at = excluded.created_at, expires_at = excluded.expires_at`,
		p.endpoint, p.pairing, p.envelope.Sealed, p.envelope.DataKey, p.envelope.KeyID, sqldb.Micros(p.created), sqldb.Micros(p.expires))
	return s.db.Wrap(err)
}
