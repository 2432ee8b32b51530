package testkit

import (
	"database/sql"
	"strings"
	"testing"

	"slipway.dev/services/internal/sqldb"
)

// QueryPlan returns how the database executes a query, a line for each step. PostgreSQL chooses as in a large table: it does not
// scan tables, and does not use the methods in without, e.g. "sort".
func QueryPlan(t testing.TB, db *sqldb.DB, without []string, query string, args ...any) string {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	explain := "EXPLAIN QUERY PLAN "
	if !db.IsSQLite() {
		explain = "EXPLAIN "
		for _, method := range append([]string{"seqscan"}, without...) {
			if _, err := conn.ExecContext(t.Context(), "SET enable_"+method+" = off"); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows, err := conn.QueryContext(t.Context(), explain+query, args...)
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
		var step string // in the last column
		into := make([]any, len(columns))
		for i := range into {
			into[i] = new(sql.RawBytes)
		}
		into[len(into)-1] = &step
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(step + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
