package sqldb_test

import (
	"errors"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestQuota verifies that writes beyond the limit are rejected, that each row has an
// overhead, and that deleted rows free their space.
func TestQuota(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		do := func(text string, args ...any) {
			t.Helper()
			if _, err := db.ExecContext(ctx, text, args...); err != nil {
				t.Fatal(err)
			}
		}
		do(`CREATE TABLE space_things (id bigint PRIMARY KEY, content bytea NOT NULL)`)
		const limit = 30_000
		s := sqldb.NewQuota(db, "space_things", limit)
		fits := func(n int64, want bool) {
			t.Helper()
			err := s.Reserve(ctx, n)
			if want && err != nil {
				t.Errorf("reserving %d bytes: %v", n, err)
			}
			if e, ok := fault.As(err); !want && (!ok || !errors.Is(err, fault.Unavailable) || e.RetryAfter <= 0) {
				t.Errorf("reserving %d bytes: %v, want fault.Unavailable with RetryAfter", n, err)
			}
		}
		fits(limit+1, false)
		for i := range 2 { // the next measurement adds the overhead of rows
			fits(10_000, true)
			do(`INSERT INTO space_things (id, content) VALUES ($1, $2)`, i, make([]byte, 10_000))
		}
		fits(10_001, false)
		s.Expire()
		fits(5_000, false)
		do(`DELETE FROM space_things WHERE id = 0`)
		fits(10_001, false) // until the next measurement
		s.Expire()
		fits(10_001, true)
		fits(10_001, false)

		if err := sqldb.NewQuota(db, "space_things", 0).Reserve(ctx, 1<<40); err != nil {
			t.Errorf("without a limit: %v", err)
		}
	})
}
