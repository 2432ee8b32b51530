package identity

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
)

// A session is a program that a user has accepted, with its chain of refresh tokens.
type session struct {
	id   int64
	user User
	// token is the access token that the user signed in with; the session ends with it. It is 0
	// if the user signed in at the provider.
	token                  int64
	clientID               string
	codeHash               []byte // of the code that the session began with
	refresh                []byte // hash of the newest refresh token
	created, used, expires time.Time
}

// beginSession deletes the code of a kind with v.codeHash, and stores v for the user of the code
// if accepts returns true. It returns fault.NotFound if there is no such code, or accepts
// returns false. If a code is used a second time, one of the uses was by a thief, so the session
// that the code began ends (RFC 6749, 4.1.2).
func (s store) beginSession(ctx context.Context, v session, kind codeKind, accepts func(code) bool) (session, error) {
	found := false
	err := s.db.Tx(ctx, func(t *sql.Tx) error {
		c, err := takeCode(ctx, t, kind, v.codeHash, v.clientID)
		if errors.Is(err, sql.ErrNoRows) {
			return s.endReusedSession(ctx, t, `DELETE FROM platform_sessions WHERE code_hash = $1 RETURNING user_id, id`, v.codeHash)
		}
		if err != nil || !accepts(c) {
			return err
		}
		found, v.user.ID, v.token = true, c.userID, c.token
		if err := insertSession(ctx, t, v); err != nil {
			return err
		}
		return s.appendAs(ctx, t, c.userID, audit.Event{Action: "session.create", Subject: v.clientID, After: map[string]any{"session": v.id, "kind": string(kind)}})
	})
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return v, s.db.NotFound("code", err)
}

// insertSession stores a session, and ends the user's least recently used sessions beyond the
// limit.
func insertSession(ctx context.Context, t *sql.Tx, v session) error {
	_, err := t.ExecContext(ctx, `
		INSERT INTO platform_sessions (id, user_id, token_id, client_id, code_hash, refresh_hash, created_at, used_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)`,
		v.id, v.user.ID, v.token, v.clientID, v.codeHash, v.refresh, sqldb.Micros(v.created), sqldb.Micros(v.expires))
	if err != nil {
		return err
	}
	_, err = t.ExecContext(ctx, `
		DELETE FROM platform_sessions WHERE user_id = $1 AND id NOT IN (
			SELECT id FROM platform_sessions WHERE user_id = $1 ORDER BY used_at DESC, id LIMIT $2)`, v.user.ID, limits.SessionsPerUser)
	return err
}

const sessionColumns = `s.id, s.token_id, s.client_id, s.refresh_hash, s.created_at, s.used_at, s.expires_at`

// validSessions is an SQL condition for the sessions that are valid at the time $2: neither they
// nor the access token of their sign-in have expired.
const validSessions = ` AND s.expires_at > $2 AND (s.token_id = 0 OR EXISTS (
	SELECT 1 FROM platform_tokens t WHERE t.id = s.token_id AND t.user_id = s.user_id AND (t.expires_at = 0 OR t.expires_at > $2)))`

func (v *session) scan(scan func(...any) error, more ...any) error {
	into := []any{&v.id, &v.token, &v.clientID, &v.refresh, sqldb.ScanTime(&v.created), sqldb.ScanTime(&v.used), sqldb.ScanTime(&v.expires)}
	return scan(append(into, more...)...)
}

const sessionQuery = `SELECT ` + sessionColumns + `, ` + UserColumns + `
	FROM platform_sessions s JOIN platform_users u ON u.id = s.user_id WHERE s.id = $1 AND u.disabled_at = 0` + validSessions

// session returns a valid session with its user, or fault.NotFound.
func (s store) session(ctx context.Context, id int64, now time.Time) (v session, err error) {
	err = v.scan(s.db.PreparedRow(ctx, sessionQuery, id, sqldb.Micros(now)).Scan, v.user.Into()...)
	return v, s.db.NotFound("session", err)
}

// sessions returns a user's valid sessions, newest first.
func (s store) sessions(ctx context.Context, userID int64, now time.Time) ([]session, error) {
	return sqldb.Listing[session]{
		Read: `SELECT ` + sessionColumns + ` FROM platform_sessions s WHERE s.user_id = $1` + validSessions + ` ORDER BY s.created_at DESC, s.id`,
		Scan: func(r *sql.Rows) (v session, err error) { return v, v.scan(r.Scan) },
	}.All(ctx, s.db, userID, sqldb.Micros(now))
}

// replaceRefreshToken replaces the refresh token of a session. It returns false if v.refresh is
// no longer the newest.
func (s store) replaceRefreshToken(ctx context.Context, v session, next []byte) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		UPDATE platform_sessions SET refresh_hash = $3, used_at = $4, expires_at = $5 WHERE id = $1 AND refresh_hash = $2`,
		v.id, v.refresh, next, sqldb.Micros(v.used), sqldb.Micros(v.expires)))
}

// endSession ends a session whose refresh token was used twice.
func (s store) endSession(ctx context.Context, id int64) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		return s.endReusedSession(ctx, t, `DELETE FROM platform_sessions WHERE id = $1 RETURNING user_id, id`, id)
	})
}

// endReusedSession runs a statement that deletes a session whose code or refresh token was used
// twice, and records the event. It does nothing if the session does not exist.
func (s store) endReusedSession(ctx context.Context, t *sql.Tx, statement string, arg any) error {
	var userID, id int64
	err := t.QueryRowContext(ctx, statement, arg).Scan(&userID, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.appendAs(ctx, t, userID, audit.Event{Action: "session.end", Subject: strconv.FormatInt(id, 10), Refused: "A code or refresh token was used twice"})
}

// appendAs appends an event with a user as the actor.
func (s store) appendAs(ctx context.Context, t *sql.Tx, userID int64, e audit.Event) error {
	e.Actor.UserID = userID
	if err := t.QueryRowContext(ctx, `SELECT user_name FROM platform_users WHERE id = $1`, userID).Scan(&e.Actor.Name); err != nil {
		return err
	}
	return s.audit.Append(ctx, t, e)
}
