package sqldb_test

import (
	"strings"
	"testing"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestSize checks that the size grows with the content of the database.
func TestSize(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		before, err := db.Size(t.Context())
		if err != nil || before < 0 {
			t.Fatal(before, err)
		}
		for _, text := range []string{`CREATE TABLE texts (text text NOT NULL)`, `INSERT INTO texts (text) VALUES ('` + strings.Repeat("0123456789abcdef", 1<<16) + `')`} {
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		if after, err := db.Size(t.Context()); err != nil || after <= before {
			t.Errorf("the size is %d after %d: %v", after, before, err)
		}
	})
}
