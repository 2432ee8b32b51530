package store

import (
	"strings"
	"testing"

	"slipway.dev/services/container/migrations"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestExpiredRequestsAreIndexed checks that the queries for expired requests read an index in its
// order, and so only the rows that they return.
func TestExpiredRequestsAreIndexed(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "container", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			query, index string
			args         []any
		}{
			{expiredRequests, "container_requests_by_expiry", []any{int64(1), 10}},
			{expiredRequestsOf, "container_requests_by_organization", []any{int64(1), "https://p", int64(3), 10}},
		} {
			text := testkit.QueryPlan(t, db, []string{"bitmapscan", "sort"}, c.query, c.args...)
			if !strings.Contains(text, c.index) || strings.Contains(text, "TEMP B-TREE") || strings.Contains(text, "Sort") {
				t.Errorf("the query does not read %s in its order:\n%s", c.index, text)
			}
		}
	})
}
