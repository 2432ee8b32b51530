package platform

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
)

type user struct {
	ID                  int64
	Name, Email         string
	FirstName, LastName string
	Organization        string
	created, updated    time.Time
}

const userColumns = `u.id, u.user_name, u.email, u.first_name, u.last_name, u.organization, u.created_at, u.updated_at`

// into lists where a row of userColumns goes; settle ends it.
func (u *user) into(created, updated *int64) []any {
	return []any{&u.ID, &u.Name, &u.Email, &u.FirstName, &u.LastName, &u.Organization, created, updated}
}

func (u *user) settle(created, updated int64) {
	u.created, u.updated = sqldb.Time(created), sqldb.Time(max(created, updated))
}

func (s store) upsertUser(ctx context.Context, u user, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_users (id, user_name, email, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET email = excluded.email`,
		u.ID, u.Name, u.Email, sqldb.Micros(now))
	return err
}

// insertUser answers false when name or e-mail are taken.
func (s store) insertUser(ctx context.Context, u user, now time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		INSERT INTO platform_users (id, user_name, email, first_name, last_name, created_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT DO NOTHING`, u.ID, u.Name, u.Email, u.FirstName, u.LastName, sqldb.Micros(now)))
}

// userNamed finds a user by name or e-mail address; fault.NotFound.
func (s store) userNamed(ctx context.Context, name string) (user, error) {
	var u user
	var created, updated int64
	err := s.db.QueryRowContext(ctx, `
		SELECT `+userColumns+` FROM platform_users u WHERE u.user_name = $1 OR u.email = $1`, name).Scan(u.into(&created, &updated)...)
	u.settle(created, updated)
	return u, s.db.NotFound("user", err)
}

// hasUser says whether there is a user of that id.
func (s store) hasUser(ctx context.Context, id int64) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_users WHERE id = $1`, id).Scan(&n)
	return n > 0, err
}

func (s store) users(ctx context.Context) ([]user, error) {
	out, _, err := sqldb.Listing[user]{
		Read: `SELECT ` + userColumns + ` FROM platform_users u ORDER BY u.user_name LIMIT $1 OFFSET $2`,
		Scan: func(r *sql.Rows) (user, error) {
			var u user
			var created, updated int64
			err := r.Scan(u.into(&created, &updated)...)
			u.settle(created, updated)
			return u, err
		},
	}.Page(ctx, s.db, sqldb.Page{Limit: 10_000})
	return out, err
}
