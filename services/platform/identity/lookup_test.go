package identity_test

import (
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
		for name, query := range identity.TokenQueries() {
			args := []any{int64(1)}
			if strings.Contains(query, "$2") {
				args = append(args, int64(1)) // a time
			}
			plan := testkit.QueryPlan(t, db, nil, query, args...)
			if strings.Count(plan, "\n") < 2 {
				t.Fatalf("%s: %s", name, plan)
			}
			if strings.Contains(plan, "SCAN") || strings.Contains(plan, "Seq Scan") || strings.Contains(query, "secret_hash =") {
				t.Errorf("%s is not found by its key:\n%s", name, plan)
			}
		}
	})
}
