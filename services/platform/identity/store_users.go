package identity

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
)

// store is the tables of this package.
type store struct{ db *sqldb.DB }

// User is somebody with an account.
type User struct {
	ID                  int64
	Name, Email         string
	FirstName, LastName string // may be empty
	Organization        string // may be empty
	Created, Updated    time.Time
	Disabled            time.Time // since when they are not let in; zero for users who are
}

// UserColumns are what Into scans, of platform_users AS u, for those who list what
// belongs to users.
const UserColumns = `u.id, u.user_name, u.email, u.first_name, u.last_name, u.organization, u.created_at, u.updated_at, u.disabled_at`

// Into lists where a row of UserColumns goes.
func (u *User) Into() []any {
	return []any{&u.ID, &u.Name, &u.Email, &u.FirstName, &u.LastName, &u.Organization, sqldb.Into(&u.Created), sqldb.Into(&u.Updated), sqldb.Into(&u.Disabled)}
}

func (s store) upsertUser(ctx context.Context, u User, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_users (id, user_name, email, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET email = excluded.email`,
		u.ID, u.Name, u.Email, sqldb.Micros(now))
	return err
}

// insertUser returns false when name or e-mail are taken.
func (s store) insertUser(ctx context.Context, u User, now time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		INSERT INTO platform_users (id, user_name, email, first_name, last_name, created_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT DO NOTHING`, u.ID, u.Name, u.Email, u.FirstName, u.LastName, sqldb.Micros(now)))
}

// userByName finds a user by name or e-mail address; fault.NotFound.
func (s store) userByName(ctx context.Context, name string) (User, error) {
	return s.userBy(ctx, `WHERE u.user_name = $1 OR u.email = $1`, name)
}

func (s store) userBy(ctx context.Context, where string, args ...any) (u User, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT `+UserColumns+` FROM platform_users u `+where, args...).Scan(u.Into()...)
	return u, s.db.NotFound("user", err)
}

// hasUser says whether there is a user of that id who is not disabled.
func (s store) hasUser(ctx context.Context, id int64) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_users WHERE id = $1 AND disabled_at = 0`, id).Scan(&n)
	return n > 0, err
}

func (s store) users(ctx context.Context) ([]User, error) {
	return sqldb.Listing[User]{
		Read: `SELECT ` + UserColumns + ` FROM platform_users u ORDER BY u.user_name LIMIT 10000`,
		Scan: func(r *sql.Rows) (u User, err error) { return u, r.Scan(u.Into()...) },
	}.All(ctx, s.db)
}
