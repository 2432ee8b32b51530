package store

import (
	"database/sql"
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
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		explain := "EXPLAIN QUERY PLAN "
		if !db.IsSQLite() {
			explain = "EXPLAIN "
			// PostgreSQL would scan and sort a table with few rows.
			for _, method := range []string{"seqscan", "bitmapscan", "sort"} {
				if _, err := conn.ExecContext(t.Context(), "SET enable_"+method+" = off"); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, c := range []struct {
			query, index string
			args         []any
		}{
			{expiredRequests, "container_requests_by_expiry", []any{int64(1), 10}},
			{expiredRequestsOf, "container_requests_by_organization", []any{int64(1), "https://p", int64(3), 10}},
		} {
			text := planOf(t, conn, explain+c.query, c.args...)
			if !strings.Contains(text, c.index) || strings.Contains(text, "TEMP B-TREE") || strings.Contains(text, "Sort") {
				t.Errorf("the query does not read %s in its order:\n%s", c.index, text)
			}
		}
	})
}

// planOf returns the lines of a statement that explains a query.
func planOf(t *testing.T, conn *sql.Conn, explain string, args ...any) string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), explain, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		into := make([]any, len(columns))
		for i := range into {
			into[i] = new(sql.RawBytes)
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		plan.Write(*into[len(into)-1].(*sql.RawBytes)) // the description is the last column
		plan.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
