package sqldb_test

import (
	"errors"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestSpaceEndsAndComesBack: a table is full at its bound, rows without content count
// too, and what is removed makes room again.
func TestSpaceEndsAndComesBack(t *testing.T) {
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
		const most = 30_000
		s := sqldb.NewSpace(db, "space_things", most)
		fits := func(n int64, want bool) {
			t.Helper()
			err := s.Take(ctx, n)
			if want && err != nil {
				t.Errorf("%d bytes are answered %v", n, err)
			}
			if e, ok := fault.As(err); !want && (!ok || !errors.Is(err, fault.Unavailable) || e.RetryAfter <= 0) {
				t.Errorf("%d bytes are answered %v, want that there is no space", n, err)
			}
		}
		fits(most+1, false)
		for i := range 2 { // more than is there at the next measuring: rows weigh something
			fits(10_000, true)
			do(`INSERT INTO space_things (id, content) VALUES ($1, $2)`, i, make([]byte, 10_000))
		}
		fits(10_001, false)
		s.Forget()
		fits(5_000, false)
		do(`DELETE FROM space_things WHERE id = 0`)
		fits(10_001, false) // until it is measured again
		s.Forget()
		fits(10_001, true)
		fits(10_001, false)

		if err := sqldb.NewSpace(db, "space_things", 0).Take(ctx, 1<<40); err != nil {
			t.Errorf("without a bound: %v", err)
		}
	})
}
