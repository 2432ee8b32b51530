package sqldb_test

import (
	"strings"
	"sync"
	"testing"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestPreparedRow reads concurrently with one statement, also after a change of its table. An
// invalid query returns its error each time.
func TestPreparedRow(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		migrate(t, db)
		if _, err := db.ExecContext(t.Context(), insertThing, "a", 7, true, nil); err != nil {
			t.Fatal(err)
		}
		const text = `SELECT n FROM room_things WHERE id = $1`
		read := func() {
			var n int
			if err := db.PreparedRow(t.Context(), text, "a").Scan(&n); err != nil || n != 7 {
				t.Errorf("got %d, %v; want 7", n, err)
			}
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(read)
		}
		all.Wait()
		if _, err := db.ExecContext(t.Context(), `ALTER TABLE room_things ADD COLUMN later INTEGER`); err != nil {
			t.Fatal(err)
		}
		read()
		for range 2 {
			if err := db.PreparedRow(t.Context(), `SELECT n FROM room_nothing`).Scan(new(int)); err == nil || !strings.Contains(err.Error(), "room_nothing") {
				t.Errorf("a missing table: %v", err)
			}
		}
	})
}
