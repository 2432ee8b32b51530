package identity

import (
	"context"
	"database/sql"

	"slipway.dev/services/internal/sqldb"
)

// UserNames returns the names of the users and robots with these ids. It omits those that do not
// exist.
func (s *Service) UserNames(ctx context.Context, ids []int64) (map[int64]string, error) {
	out := map[int64]string{}
	if len(ids) == 0 {
		return out, nil
	}
	in, args := sqldb.In(ids)
	users, err := sqldb.Listing[User]{
		Read: `SELECT u.id, u.user_name FROM platform_users u WHERE u.id IN ` + in,
		Scan: func(r *sql.Rows) (u User, err error) { return u, r.Scan(&u.ID, &u.Name) },
	}.All(ctx, s.store.db, args...)
	if err != nil {
		return nil, err
	}
	robots, err := sqldb.Listing[robot]{
		Read: `SELECT ` + robotColumns + ` FROM platform_robots r` + robotOwners + ` WHERE r.id IN ` + in,
		Scan: func(rows *sql.Rows) (r robot, err error) { return r, r.scan(rows.Scan) },
	}.All(ctx, s.store.db, args...)
	for _, r := range robots {
		users = append(users, r.user)
	}
	for _, u := range users {
		out[u.ID] = u.Name
	}
	return out, err
}
