package identity

import (
	"context"
	"database/sql"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
)

// store accesses the tables of this package.
type store struct {
	db    *sqldb.DB
	audit audit.Log
}

// A User is a row of platform_users.
type User struct {
	ID                  int64
	Name, Email         string
	FirstName, LastName string // may be empty
	Organization        string // may be empty
	Created, Updated    time.Time
	Disabled            time.Time // when the user was disabled; zero for enabled users
	Administrator       bool
}

// UserColumns are the columns of platform_users AS u that Into scans, for queries of other
// packages that join users.
const UserColumns = `u.id, u.user_name, u.email, u.first_name, u.last_name, u.organization, u.created_at, u.updated_at, u.disabled_at, u.administrator`

// Into returns the scan destinations for UserColumns.
func (u *User) Into() []any {
	return []any{&u.ID, &u.Name, &u.Email, &u.FirstName, &u.LastName, &u.Organization, sqldb.ScanTime(&u.Created), sqldb.ScanTime(&u.Updated), sqldb.ScanTime(&u.Disabled), &u.Administrator}
}

// upsertAdmin creates the first user as an administrator, or changes the user's e-mail address.
func (s store) upsertAdmin(ctx context.Context, u User, now time.Time) error {
	e := audit.Event{Action: "user.create", Subject: u.Name, After: map[string]any{"email": u.Email, "administrator": true}}
	_, err := s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		res, err := t.ExecContext(ctx, `
			INSERT INTO platform_users (id, user_name, email, created_at, administrator) VALUES ($1, $2, $3, $4, true)
			ON CONFLICT (id) DO UPDATE SET email = excluded.email WHERE platform_users.email <> excluded.email`,
			u.ID, u.Name, u.Email, sqldb.Micros(now))
		if err != nil { // for example if another user has the name or the address
			return false, err
		}
		n, err := res.RowsAffected()
		return n > 0, err
	})
	return err
}

// insertUser returns false if the name or the e-mail address is taken. The case of ASCII letters
// in addresses is ignored. It calls then in the same transaction, after the user was inserted, and
// appends the audit events that it returns.
func (s store) insertUser(ctx context.Context, u User, now time.Time, then func(*sql.Tx) ([]audit.Event, error)) (bool, error) {
	e := audit.Event{Action: "user.create", Subject: u.Name, After: map[string]any{
		"id": u.ID, "email": u.Email, "firstName": u.FirstName, "lastName": u.LastName,
	}}
	return s.audit.ChangeAll(ctx, e, func(t *sql.Tx) (bool, []audit.Event, error) {
		others, err := usersWithEmail(ctx, t, u.Email)
		if err != nil || len(others) > 0 {
			return false, nil, err
		}
		created, err := s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_users (id, user_name, email, first_name, last_name, created_at)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, u.ID, u.Name, u.Email, u.FirstName, u.LastName, sqldb.Micros(now)))
		if err != nil || !created {
			return false, nil, err
		}
		more, err := then(t)
		return err == nil, more, err
	})
}

// A querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// usersWithEmail returns the users with an e-mail address, ignoring the case of ASCII letters.
func usersWithEmail(ctx context.Context, q querier, email string) (out []User, err error) {
	key := AddressKey(email)
	// In most locales PostgreSQL's lower also folds letters such as the kelvin sign, which SQLite's
	// does not. The loop below decides.
	rows, err := q.QueryContext(ctx, `SELECT `+UserColumns+` FROM platform_users u WHERE lower(u.email) = lower(CAST($1 AS text)) OR lower(u.email) = $2`, email, key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var u User
		if err := rows.Scan(u.Into()...); err != nil {
			return nil, err
		}
		if AddressKey(u.Email) == key {
			out = append(out, u)
		}
	}
	return out, rows.Err()
}

// userByName returns the user with a name or e-mail address, or fault.NotFound.
func (s store) userByName(ctx context.Context, name string) (User, error) {
	return s.userBy(ctx, `WHERE u.user_name = $1 OR u.email = $1`, name)
}

func (s store) userBy(ctx context.Context, where string, args ...any) (u User, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT `+UserColumns+` FROM platform_users u `+where, args...).Scan(u.Into()...)
	return u, s.db.NotFound("user", err)
}

// hasUser reports whether the user with an id exists and is not disabled, or the robot exists.
func (s store) hasUser(ctx context.Context, id int64) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM platform_users WHERE id = $1 AND disabled_at = 0) + (SELECT count(*) FROM platform_robots WHERE id = $1)`, id).Scan(&n)
	return n > 0, err
}

func (s store) users(ctx context.Context) ([]User, error) {
	return sqldb.Listing[User]{
		Read: `SELECT ` + UserColumns + ` FROM platform_users u ORDER BY u.user_name LIMIT 10000`,
		Scan: func(r *sql.Rows) (u User, err error) { return u, r.Scan(u.Into()...) },
	}.All(ctx, s.db)
}
