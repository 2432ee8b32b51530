package platform

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// store is the tables platform_users and platform_tokens.
type store struct{ db *sqldb.DB }

type user struct {
	ID          int64
	Name, Email string
}

type tokenRecord struct {
	user       user
	secretHash []byte
}

func (s store) upsertUser(ctx context.Context, u user, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_users (id, user_name, email, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET email = excluded.email`,
		u.ID, u.Name, u.Email, sqldb.Micros(now))
	return err
}

func (s store) hasToken(ctx context.Context, userID int64) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_tokens WHERE user_id = $1`, userID).Scan(&n)
	return n > 0, err
}

func (s store) putToken(ctx context.Context, t token, userID int64, name string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_tokens (id, user_id, name, secret_hash, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, secret_hash = excluded.secret_hash`,
		t.id, userID, name, t.hash(), sqldb.Micros(now))
	return err
}

// token reads a token with its user; fault.NotFound when there is none.
func (s store) token(ctx context.Context, id int64) (tokenRecord, error) {
	var r tokenRecord
	err := s.db.QueryRowContext(ctx, `
		SELECT u.id, u.user_name, u.email, t.secret_hash
		FROM platform_tokens t JOIN platform_users u ON u.id = t.user_id WHERE t.id = $1`, id).
		Scan(&r.user.ID, &r.user.Name, &r.user.Email, &r.secretHash)
	if errors.Is(err, sql.ErrNoRows) {
		return r, fault.NotFound.New("There is no such token", err)
	}
	return r, err
}
