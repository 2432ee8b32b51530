package platform

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
)

// code is an authorization code on its way.
type code struct {
	hash                             []byte
	userID                           int64
	clientID, redirectURI, challenge string
	expires                          time.Time
}

// putCode also forgets codes that nobody took.
func (s store) putCode(ctx context.Context, c code, now time.Time) error {
	return s.tx(ctx, func(t *sql.Tx) error {
		if _, err := t.ExecContext(ctx, `DELETE FROM platform_codes WHERE expires_at < $1`, sqldb.Micros(now)); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `
			INSERT INTO platform_codes (code_hash, user_id, client_id, redirect_uri, challenge, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			c.hash, c.userID, c.clientID, c.redirectURI, c.challenge, sqldb.Micros(c.expires))
		return err
	})
}

// takeCode reads a code and ends it; fault.NotFound.
func (s store) takeCode(ctx context.Context, hash []byte) (code, error) {
	c := code{hash: hash}
	var expires int64
	err := s.db.QueryRowContext(ctx, `
		DELETE FROM platform_codes WHERE code_hash = $1 RETURNING user_id, client_id, redirect_uri, challenge, expires_at`, hash).
		Scan(&c.userID, &c.clientID, &c.redirectURI, &c.challenge, &expires)
	c.expires = sqldb.Time(expires)
	return c, s.notFound("code", err)
}

// session is a sign-in.
type session struct {
	id       int64
	user     user
	clientID string
	refresh  []byte // hash of the newest refresh token
	expires  time.Time
}

func (s store) insertSession(ctx context.Context, v session, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_sessions (id, user_id, client_id, refresh_hash, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		v.id, v.user.ID, v.clientID, v.refresh, sqldb.Micros(now), sqldb.Micros(v.expires))
	return err
}

const sessionQuery = `SELECT s.client_id, s.refresh_hash, s.expires_at, ` + userColumns + `
	FROM platform_sessions s JOIN platform_users u ON u.id = s.user_id WHERE s.id = $1`

// session reads one with its user; fault.NotFound.
func (s store) session(ctx context.Context, id int64) (session, error) {
	v := session{id: id}
	var expires, created, updated int64
	into := append([]any{&v.clientID, &v.refresh, &expires}, v.user.into(&created, &updated)...)
	err := s.db.QueryRowContext(ctx, sessionQuery, id).Scan(into...)
	v.expires = sqldb.Time(expires)
	v.user.settle(created, updated)
	return v, s.notFound("session", err)
}

// turnSession replaces the refresh token; false when it is not the newest.
func (s store) turnSession(ctx context.Context, id int64, was, next []byte, expires time.Time) (bool, error) {
	return s.changed(s.db.ExecContext(ctx, `
		UPDATE platform_sessions SET refresh_hash = $3, expires_at = $4 WHERE id = $1 AND refresh_hash = $2`,
		id, was, next, sqldb.Micros(expires)))
}

func (s store) deleteSession(ctx context.Context, id int64) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_sessions WHERE id = $1`, id)
	return err
}
