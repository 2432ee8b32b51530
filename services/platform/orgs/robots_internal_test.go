package orgs

import (
	"testing"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/migrations"
)

// TestUpdateOfChangedRobot makes two updates of a robot that both read it before either is stored.
func TestUpdateOfChangedRobot(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		if err := db.Migrate(ctx, "platform", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(ctx, `INSERT INTO platform_orgs (id, name, name_key, full_name, description, location, website, created_at) VALUES (1, 'lab', 'lab', 'Lab', '', '', '', 0)`); err != nil {
			t.Fatal(err)
		}
		s := store{db, audit.Log{DB: db, Now: time.Now}}
		old, created, err := s.insertRobot(ctx, robot{id: 2, orgID: 1, name: "ci", role: "launch", created: time.Now()})
		if err != nil || !created {
			t.Fatal(created, err)
		}
		lowered, described := old, old
		lowered.role, described.description = "view", "Reads runs"
		for _, c := range []struct {
			name     string
			old, new robot
			want     bool
		}{
			{"the first", old, lowered, true},
			{"another that read the same", old, described, false},
			{"one that read the first", lowered, described, true},
			{"another description", lowered, old, false},
		} {
			if done, err := s.updateRobot(ctx, c.old, c.new); done != c.want || err != nil {
				t.Errorf("%s: %v, %v", c.name, done, err)
			}
		}
	})
}
