package identity_test

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/migrations"
)

// TestTokensAreFoundByID checks that the time of a lookup reveals nothing about secrets:
// the query finds the row by its primary key and does not contain the secret, which is then
// compared in constant time (see token.matches).
func TestTokensAreFoundByID(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "platform", migrations.FS()); err != nil {
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
			// PostgreSQL would scan a table with few rows.
			if _, err := conn.ExecContext(t.Context(), `SET enable_seqscan = off`); err != nil {
				t.Fatal(err)
			}
		}
		for name, query := range identity.TokenQueries() {
			args := []any{int64(1)}
			if strings.Contains(query, "$2") {
				args = append(args, int64(1)) // a time
			}
			rows, err := conn.QueryContext(t.Context(), explain+query, args...)
			if err != nil {
				t.Fatal(err)
			}
			var plan []string
			for rows.Next() {
				var line string
				into := []any{new(int64), new(int64), new(int64), &line}
				if !db.IsSQLite() {
					into = []any{&line}
				}
				if err := rows.Scan(into...); err != nil {
					t.Fatal(err)
				}
				plan = append(plan, line)
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(plan) < 2 {
				t.Fatalf("%s: %v, %v", name, plan, err)
			}
			if text := strings.Join(plan, "\n"); strings.Contains(text, "SCAN") || strings.Contains(text, "Seq Scan") || strings.Contains(query, "secret_hash =") {
				t.Errorf("%s is not found by its key:\n%s", name, text)
			}
		}
	})
}
