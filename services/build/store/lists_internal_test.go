package store

import (
	"strings"
	"testing"

	"slipway.dev/services/build/migrations"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestBuildsAreCountedInTheIndex checks that the number of a user's builds, which each page of their list has, is read from an
// index only: a row of the table has the request of its build.
func TestBuildsAreCountedInTheIndex(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "build", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		want := "COVERING INDEX build_builds_by_user"
		if !db.IsSQLite() {
			want = "Index Only Scan using build_builds_by_user"
		}
		plan := testkit.QueryPlan(t, db, []string{"bitmapscan"}, `SELECT COUNT(*) FROM build_builds WHERE `+mine, "https://p", int64(1), int64(0), "")
		if !strings.Contains(plan, want) {
			t.Errorf("the plan is\n%s", plan)
		}
	})
}
