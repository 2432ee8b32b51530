package store

import (
	"strings"
	"testing"

	"slipway.dev/services/build/migrations"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestEnvironmentsAreFoundInTheIndex checks that the builds of a lock are found without reading the other builds.
func TestEnvironmentsAreFoundInTheIndex(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "build", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		plan := testkit.QueryPlan(t, db, nil, `SELECT id FROM build_builds WHERE `+ofLock, strings.Repeat("0", 64), "s", 16)
		if !strings.Contains(plan, "build_builds_by_lock") {
			t.Errorf("the plan is\n%s", plan)
		}
	})
}
