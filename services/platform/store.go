package platform

import (
	"context"
	"errors"
	"time"

	"slipway.dev/services/internal/sqldb"
)

// store is the tables platform_*.
type store struct{ db *sqldb.DB }

// deleteEnded removes pairings, sign-ins and codes whose time is over.
func (s store) deleteEnded(ctx context.Context, now time.Time) error {
	var problems []error
	for _, table := range []string{"platform_pairings", "platform_sessions", "platform_codes", "platform_sign_ins"} {
		_, err := s.db.ExecContext(ctx, `DELETE FROM `+table+` WHERE expires_at <= $1`, sqldb.Micros(now))
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
