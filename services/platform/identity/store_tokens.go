package identity

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
)

// tokenRecord is an access token as it is stored, with its user.
type tokenRecord struct {
	id                     int64
	name                   string
	user                   User
	secretHash             []byte
	created, expires, used time.Time // expires and used may be zero: never
}

func (s store) hasToken(ctx context.Context, userID int64) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_tokens WHERE user_id = $1`, userID).Scan(&n)
	return n > 0, err
}

// putToken writes a token that configuration names. What began with another secret
// of the same id ends.
func (s store) putToken(ctx context.Context, t token, userID int64, name string, now time.Time) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		kept, err := s.db.Changed(tx.ExecContext(ctx, `
			UPDATE platform_tokens SET expires_at = 0 WHERE id = $1 AND user_id = $2 AND secret_hash = $3`, t.id, userID, t.hash()))
		if err != nil || kept {
			return err
		}
		if err := endMinted(ctx, tx, t.id); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO platform_tokens (id, user_id, name, secret_hash, created_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, secret_hash = excluded.secret_hash, expires_at = 0`,
			t.id, userID, name, t.hash(), sqldb.Micros(now))
		return err
	})
}

// endMinted ends the codes and sessions that began with a token.
func endMinted(ctx context.Context, tx *sql.Tx, tokenID int64) error {
	for _, text := range []string{
		`DELETE FROM platform_codes WHERE token_id = $1`, `DELETE FROM platform_sessions WHERE token_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, text, tokenID); err != nil {
			return err
		}
	}
	return nil
}

// insertToken writes a new token, unless its user has one of that name: then it
// returns false. fault.Invalid when they have too many.
func (s store) insertToken(ctx context.Context, t token, rec tokenRecord) (made bool, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		// Those of one user are made one after the other.
		if _, err := tx.ExecContext(ctx, `UPDATE platform_users SET updated_at = updated_at WHERE id = $1`, rec.user.ID); err != nil {
			return err
		}
		var n int
		err := tx.QueryRowContext(ctx, `SELECT count(*) FROM platform_tokens WHERE user_id = $1 AND name = $2`, rec.user.ID, rec.name).Scan(&n)
		if err != nil || n > 0 {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM platform_tokens WHERE user_id = $1`, rec.user.ID).Scan(&n); err != nil {
			return err
		}
		if err := api.CheckCount("access tokens", n, limits.TokensPerUser); err != nil {
			return err
		}
		made, err = s.db.Changed(tx.ExecContext(ctx, `
			INSERT INTO platform_tokens (id, user_id, name, secret_hash, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			t.id, rec.user.ID, rec.name, t.hash(), sqldb.Micros(rec.created), sqldb.Micros(rec.expires)))
		return err
	})
	return made, err
}

const tokenQuery = `SELECT t.name, t.secret_hash, t.created_at, t.expires_at, t.used_at, ` + UserColumns + `
	FROM platform_tokens t JOIN platform_users u ON u.id = t.user_id WHERE t.id = $1 AND u.disabled_at = 0`

// token reads a token with its user; fault.NotFound when there is none, or its user
// is disabled.
func (s store) token(ctx context.Context, id int64) (tokenRecord, error) {
	r := tokenRecord{id: id}
	into := []any{&r.name, &r.secretHash, sqldb.Into(&r.created), sqldb.Into(&r.expires), sqldb.Into(&r.used)}
	err := s.db.PreparedRow(ctx, tokenQuery, id).Scan(append(into, r.user.Into()...)...)
	return r, s.db.NotFound("token", err)
}

func (s store) touchToken(ctx context.Context, id int64, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE platform_tokens SET used_at = $2 WHERE id = $1 AND used_at < $2`, id, sqldb.Micros(now))
	return err
}

func (s store) tokens(ctx context.Context, userID int64) ([]tokenRecord, error) {
	return sqldb.Listing[tokenRecord]{
		Read: `SELECT id, name, created_at, expires_at, used_at FROM platform_tokens WHERE user_id = $1 ORDER BY name, id LIMIT $2`,
		Scan: func(rows *sql.Rows) (r tokenRecord, err error) {
			return r, rows.Scan(&r.id, &r.name, sqldb.Into(&r.created), sqldb.Into(&r.expires), sqldb.Into(&r.used))
		},
	}.All(ctx, s.db, userID, limits.TokensPerUser)
}

// deleteToken ends a token with what began with it, or a session; it returns false
// when the user has neither.
func (s store) deleteToken(ctx context.Context, userID, id int64) (done bool, err error) {
	err = s.db.Tx(ctx, func(t *sql.Tx) error {
		if done, err = s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_tokens WHERE id = $1 AND user_id = $2`, id, userID)); err != nil {
			return err
		}
		if done {
			return endMinted(ctx, t, id)
		}
		done, err = s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_sessions WHERE id = $1 AND user_id = $2`, id, userID))
		return err
	})
	return done, err
}

// deleteTokens also ends the user's sessions, and those on their way.
func (s store) deleteTokens(ctx context.Context, userID int64) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		for _, text := range []string{
			`DELETE FROM platform_tokens WHERE user_id = $1`, `DELETE FROM platform_codes WHERE user_id = $1`,
			`DELETE FROM platform_sessions WHERE user_id = $1`,
		} {
			if _, err := t.ExecContext(ctx, text, userID); err != nil {
				return err
			}
		}
		return nil
	})
}
