package platform

import (
	"context"
	"time"

	"slipway.dev/services/internal/sqldb"
)

// store is the tables platform_*.
type store struct{ db *sqldb.DB }

// deleteEnded removes pairings whose time is over.
func (s store) deleteEnded(ctx context.Context, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_pairings WHERE expires_at <= $1`, sqldb.Micros(now))
	return err
}
