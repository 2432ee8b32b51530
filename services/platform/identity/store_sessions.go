package identity

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// code is an authorization code on its way.
type code struct {
	hash                             []byte
	userID, token                    int64 // see session
	clientID, redirectURI, challenge string
	expires                          time.Time
}

// putCode also forgets codes that nobody took.
func (s store) putCode(ctx context.Context, c code, now time.Time) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		if _, err := t.ExecContext(ctx, `DELETE FROM platform_codes WHERE expires_at < $1`, sqldb.Micros(now)); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `
			INSERT INTO platform_codes (code_hash, user_id, token_id, client_id, redirect_uri, challenge, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			c.hash, c.userID, c.token, c.clientID, c.redirectURI, c.challenge, sqldb.Micros(c.expires))
		return err
	})
}

// takeCode reads a code and ends it; fault.NotFound.
func (s store) takeCode(ctx context.Context, hash []byte) (code, error) {
	c := code{hash: hash}
	err := s.db.QueryRowContext(ctx, `
		DELETE FROM platform_codes WHERE code_hash = $1 RETURNING user_id, token_id, client_id, redirect_uri, challenge, expires_at`, hash).
		Scan(&c.userID, &c.token, &c.clientID, &c.redirectURI, &c.challenge, sqldb.Into(&c.expires))
	return c, s.db.NotFound("code", err)
}

// session is a program that its user let in.
type session struct {
	id   int64
	user User
	// token is the access token that the user signed in with, without which the
	// session is over; 0: they signed in at the provider.
	token                  int64
	clientID               string
	refresh                []byte // hash of the newest refresh token
	created, used, expires time.Time
}

// insertSession also ends the oldest of a user who has too many.
func (s store) insertSession(ctx context.Context, v session) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		_, err := t.ExecContext(ctx, `
			INSERT INTO platform_sessions (id, user_id, token_id, client_id, refresh_hash, created_at, used_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $6, $7)`,
			v.id, v.user.ID, v.token, v.clientID, v.refresh, sqldb.Micros(v.created), sqldb.Micros(v.expires))
		if err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `
			DELETE FROM platform_sessions WHERE user_id = $1 AND id NOT IN (
				SELECT id FROM platform_sessions WHERE user_id = $1 ORDER BY used_at DESC, id LIMIT $2)`, v.user.ID, limits.SessionsPerUser)
		return err
	})
}

const sessionColumns = `s.id, s.token_id, s.client_id, s.refresh_hash, s.created_at, s.used_at, s.expires_at`

// lasting holds for sessions whose access token is still good at the instant $2.
const lasting = ` AND s.expires_at > $2 AND (s.token_id = 0 OR EXISTS (
	SELECT 1 FROM platform_tokens t WHERE t.id = s.token_id AND t.user_id = s.user_id AND (t.expires_at = 0 OR t.expires_at > $2)))`

func (v *session) scan(scan func(...any) error, more ...any) error {
	into := []any{&v.id, &v.token, &v.clientID, &v.refresh, sqldb.Into(&v.created), sqldb.Into(&v.used), sqldb.Into(&v.expires)}
	return scan(append(into, more...)...)
}

const sessionQuery = `SELECT ` + sessionColumns + `, ` + UserColumns + `
	FROM platform_sessions s JOIN platform_users u ON u.id = s.user_id WHERE s.id = $1 AND u.disabled_at = 0` + lasting

// session reads one that goes on, with its user; fault.NotFound.
func (s store) session(ctx context.Context, id int64, now time.Time) (v session, err error) {
	err = v.scan(s.db.PreparedRow(ctx, sessionQuery, id, sqldb.Micros(now)).Scan, v.user.Into()...)
	return v, s.db.NotFound("session", err)
}

// sessions lists those of a user that go on, newest first.
func (s store) sessions(ctx context.Context, userID int64, now time.Time) ([]session, error) {
	return sqldb.Listing[session]{
		Read: `SELECT ` + sessionColumns + ` FROM platform_sessions s WHERE s.user_id = $1` + lasting + ` ORDER BY s.created_at DESC, s.id`,
		Scan: func(r *sql.Rows) (v session, err error) { return v, v.scan(r.Scan) },
	}.All(ctx, s.db, userID, sqldb.Micros(now))
}

// turnSession replaces the refresh token; false when it is not the newest.
func (s store) turnSession(ctx context.Context, v session, next []byte) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		UPDATE platform_sessions SET refresh_hash = $3, used_at = $4, expires_at = $5 WHERE id = $1 AND refresh_hash = $2`,
		v.id, v.refresh, next, sqldb.Micros(v.used), sqldb.Micros(v.expires)))
}

func (s store) deleteSession(ctx context.Context, id int64) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_sessions WHERE id = $1`, id)
	return s.db.Lost(err)
}
