package identity

import (
	"context"
	"database/sql"
	"net/netip"
	"strconv"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
)

// A tokenRecord is a stored access token with its user.
type tokenRecord struct {
	id                     int64
	name                   string
	user                   User
	secretHash             []byte
	created, expires, used time.Time // expires and used may be zero: never
	usedFrom               string    // the client's address at used; may be ""
	restriction            Restriction
	// restrictedHash is the hash of the secret if restriction is not zero. secretHash is then
	// empty, so that the previous release, which ignores restrictions, rejects the token.
	restrictedHash []byte
	robot          *robot // the owner if it is a robot; user is then the robot's account
}

// hash returns the hash of the secret.
func (r tokenRecord) hash() []byte {
	if r.restriction.IsZero() {
		return r.secretHash
	}
	return r.restrictedHash
}

func (r tokenRecord) caller() Caller {
	c := Caller{User: r.user, TokenID: r.id, Restriction: r.restriction, expires: r.expires}
	if r.robot != nil {
		c.RobotOrg = r.robot.owner.Org
	}
	return c
}

func (s store) hasToken(ctx context.Context, userID int64) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_tokens WHERE user_id = $1`, userID).Scan(&n)
	return n > 0, err
}

// putToken stores a configured token that never expires. If it replaces a token with the same id
// and another secret, the sessions and codes that began with the old token end.
func (s store) putToken(ctx context.Context, t token, userID int64, name string, now time.Time) error {
	e := audit.Event{Action: "token.create", Subject: strconv.FormatInt(t.id, 10), After: map[string]any{"userId": userID, "name": name}}
	exists, err := s.db.Changed(s.db.ExecContext(ctx, `
		UPDATE platform_tokens SET expires_at = 0 WHERE id = $1 AND user_id = $2 AND secret_hash = $3`, t.id, userID, t.hash()))
	if err != nil || exists {
		return err
	}
	_, err = s.audit.Change(ctx, e, func(tx *sql.Tx) (bool, error) {
		if err := deleteSessionsOf(ctx, tx, t.id); err != nil {
			return false, err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO platform_tokens (id, user_id, name, secret_hash, created_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, secret_hash = excluded.secret_hash, expires_at = 0,
				scopes = '', workspace_id = 0, repositories = '', restricted_hash = NULL`,
			t.id, userID, name, t.hash(), sqldb.Micros(now))
		return err == nil, err
	})
	return err
}

// deleteSessionsOf deletes the codes and sessions that began with a token.
func deleteSessionsOf(ctx context.Context, tx *sql.Tx, tokenID int64) error {
	for _, text := range []string{
		`DELETE FROM platform_codes WHERE token_id = $1`, `DELETE FROM platform_sessions WHERE token_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, text, tokenID); err != nil {
			return err
		}
	}
	return nil
}

// insertToken stores a new token. It returns false if the user has a token with that name, and
// fault.Invalid if the user has too many tokens.
func (s store) insertToken(ctx context.Context, t token, rec tokenRecord) (created bool, err error) {
	if rec.robot != nil {
		return s.insertRobotToken(ctx, t, rec)
	}
	after := map[string]any{"user": rec.user.Name, "name": rec.name, "expires": expiryText(rec.expires)}
	if !rec.restriction.IsZero() {
		after["scopes"], after["workspaceId"] = names(rec.restriction.Scopes), rec.restriction.Workspace
		after["repositories"] = names(rec.restriction.Repositories)
	}
	e := audit.Event{Action: "token.create", Subject: strconv.FormatInt(t.id, 10), After: after}
	secret, restricted := t.hash(), []byte(nil)
	if !rec.restriction.IsZero() {
		secret, restricted = []byte{}, secret
	}
	return s.audit.Change(ctx, e, func(tx *sql.Tx) (bool, error) {
		// This serializes the creation of one user's tokens.
		if _, err := tx.ExecContext(ctx, `UPDATE platform_users SET updated_at = updated_at WHERE id = $1`, rec.user.ID); err != nil {
			return false, err
		}
		var n int
		err := tx.QueryRowContext(ctx, `SELECT count(*) FROM platform_tokens WHERE user_id = $1 AND name = $2`, rec.user.ID, rec.name).Scan(&n)
		if err != nil || n > 0 {
			return false, err
		}
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM platform_tokens WHERE user_id = $1`, rec.user.ID).Scan(&n); err != nil {
			return false, err
		}
		if err := api.AccessTokens.Check(n); err != nil {
			return false, err
		}
		return s.db.Changed(tx.ExecContext(ctx, `
			INSERT INTO platform_tokens (id, user_id, name, secret_hash, created_at, expires_at, scopes, workspace_id, restricted_hash, repositories)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			t.id, rec.user.ID, rec.name, secret, sqldb.Micros(rec.created), sqldb.Micros(rec.expires),
			stored(rec.restriction.Scopes), rec.restriction.Workspace, restricted, stored(rec.restriction.Repositories)))
	})
}

// expiryText returns an expiry for the audit trail.
func expiryText(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.UTC().Format(time.RFC3339)
}

const recordColumns = `t.id, t.name, t.created_at, t.expires_at, t.used_at, t.used_from, t.scopes, t.repositories, t.workspace_id`

// scan reads recordColumns, followed by more columns.
func (r *tokenRecord) scan(scan func(...any) error, more ...any) error {
	var scopes, repositories string
	into := []any{&r.id, &r.name, sqldb.ScanTime(&r.created), sqldb.ScanTime(&r.expires), sqldb.ScanTime(&r.used), &r.usedFrom, &scopes, &repositories, &r.restriction.Workspace}
	err := scan(append(into, more...)...)
	r.restriction.Scopes, r.restriction.Repositories = parseStored[rpc.Scope](scopes), parseStored[oci.RepositoryPattern](repositories)
	return err
}

const tokenQuery = `SELECT ` + recordColumns + `, t.secret_hash, t.restricted_hash, ` + UserColumns + `
	FROM platform_tokens t JOIN platform_users u ON u.id = t.user_id WHERE t.id = $1 AND u.disabled_at = 0`

// token returns the token with an id and its user. It returns fault.NotFound if the token does
// not exist or its user is disabled.
func (s store) token(ctx context.Context, id int64) (r tokenRecord, err error) {
	err = r.scan(s.db.PreparedRow(ctx, tokenQuery, id).Scan, append([]any{&r.secretHash, &r.restrictedHash}, r.user.Into()...)...)
	return r, s.db.NotFound("token", err)
}

// touchToken stores the last use of a token.
func (s store) touchToken(ctx context.Context, r tokenRecord, now time.Time, from netip.Addr) error {
	table, address := "platform_tokens", ""
	if r.robot != nil {
		table = "platform_robot_tokens"
	}
	if from.IsValid() {
		address = from.Unmap().String()
	}
	_, err := s.db.ExecContext(ctx, `UPDATE `+table+` SET used_at = $2, used_from = $3 WHERE id = $1 AND used_at < $2`, r.id, sqldb.Micros(now), address)
	return err
}

func (s store) tokens(ctx context.Context, userID int64) ([]tokenRecord, error) {
	return sqldb.Listing[tokenRecord]{
		Read: `SELECT ` + recordColumns + ` FROM platform_tokens t WHERE t.user_id = $1 ORDER BY t.name, t.id LIMIT $2`,
		Scan: func(rows *sql.Rows) (r tokenRecord, err error) { return r, r.scan(rows.Scan) },
	}.All(ctx, s.db, userID, limits.TokensPerUser)
}

// deleteToken deletes the token with an id, and the sessions and codes that began with it, or
// the session with that id. It returns false if the user has neither.
func (s store) deleteToken(ctx context.Context, userID, id int64) (done bool, err error) {
	e := audit.Event{Action: "token.delete", Subject: strconv.FormatInt(id, 10)}
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		done, err := s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_tokens WHERE id = $1 AND user_id = $2`, id, userID))
		if err != nil {
			return false, err
		}
		if done {
			return true, deleteSessionsOf(ctx, t, id)
		}
		return s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_sessions WHERE id = $1 AND user_id = $2`, id, userID))
	})
}

// deleteTokens deletes all of a user's tokens, sessions and codes.
func (s store) deleteTokens(ctx context.Context, u User) error {
	e := audit.Event{Action: "token.delete-all", Subject: u.Name}
	_, err := s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		for _, text := range []string{
			`DELETE FROM platform_tokens WHERE user_id = $1`, `DELETE FROM platform_codes WHERE user_id = $1`,
			`DELETE FROM platform_sessions WHERE user_id = $1`,
		} {
			if _, err := t.ExecContext(ctx, text, u.ID); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return err
}
