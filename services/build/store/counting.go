package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/sqldb"
)

// A Counting is a sequence of events of builds, one for each build. For counting, builds get
// consecutive numbers in SQL. The only row of the table has the last number that was
// assigned, and the last that was published on the bus.
type Counting struct {
	table string
	// number is the column of build_builds that has the number of the build's event.
	number string
	// unnumbered is the condition for builds whose event has happened and has no number. The
	// events get numbers in the order of the column at.
	unnumbered, at string
	event          func(counted, string) *metricsv1.Event
}

// A counted is what an event of a build depends on.
type counted struct {
	engine                      string
	owner                       *platformv1.Identity
	created, started, completed time.Time
}

// Admissions is the sequence of admitted builds.
func Admissions() Counting {
	return Counting{
		table: "build_counting", number: "counted", unnumbered: `counted = 0 AND engine <> '` + engine.Index + `'`, at: "created_at",
		event: func(c counted, platform string) *metricsv1.Event {
			m := metricsv1.Metric_METRIC_BUILDS
			if c.engine == engine.Mirror {
				m = metricsv1.Metric_METRIC_MIRRORS
			}
			return metricsbus.NewEvent(m, c.created, c.owner, platform)
		},
	}
}

// Durations is the sequence of ended builds, with the time that a worker spent on each. A build
// that was queued again counts from its last start.
func Durations() Counting {
	return Counting{
		table: "build_measuring", number: "measured", unnumbered: `measured = 0 AND state = 'COMPLETED' AND started_at > 0 AND engine NOT IN ('` + engine.Index + `', '` + engine.Mirror + `')`, at: "completed_at",
		event: func(c counted, platform string) *metricsv1.Event {
			e := metricsbus.NewEvent(metricsv1.Metric_METRIC_BUILD_SECONDS, c.completed, c.owner, platform)
			e.Amount = max(1, int64((c.completed.Sub(c.started)+time.Second-1)/time.Second))
			return e
		},
	}
}

// Number assigns numbers to up to most builds, and reports whether more builds may be left.
// Replicas wait for each other.
func (s Store) Number(ctx context.Context, c Counting, most int) (more bool, err error) {
	waits, err := s.count(ctx, c.unnumbered)
	if err != nil || waits == 0 {
		return false, err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	n, err := c.numberIn(ctx, tx, most)
	if err != nil {
		return false, err
	}
	return n == most, tx.Commit()
}

func (c Counting) numberIn(ctx context.Context, tx *sql.Tx, most int) (int, error) {
	first := `INSERT INTO ` + c.table + ` (id, source, numbered, published) VALUES (1, $1, 0, 0) ON CONFLICT DO NOTHING` //nolint:gosec // a constant name of a table
	_, err := tx.ExecContext(ctx, first, rand.Text())
	if err != nil {
		return 0, err
	}
	var last int64 // this update locks out other replicas until the commit
	if err := tx.QueryRowContext(ctx, `UPDATE `+c.table+` SET numbered = numbered WHERE id = 1 RETURNING numbered`).Scan(&last); err != nil {
		return 0, err
	}
	ids, err := c.idsIn(ctx, tx, most)
	if err != nil {
		return 0, err
	}
	for i, id := range ids {
		if _, err := tx.ExecContext(ctx, `UPDATE build_builds SET `+c.number+` = $2 WHERE id = $1`, id, last+int64(i)+1); err != nil { //nolint:gosec // a constant name of a column
			return 0, err
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE `+c.table+` SET numbered = $1 WHERE id = 1`, last+int64(len(ids))) //nolint:gosec // a constant name of a table
	return len(ids), err
}

func (c Counting) idsIn(ctx context.Context, tx *sql.Tx, most int) ([]string, error) {
	query := `SELECT id FROM build_builds WHERE ` + c.unnumbered + ` ORDER BY ` + c.at + `, id LIMIT $1` //nolint:gosec // constants
	rows, err := tx.QueryContext(ctx, query, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// Uncounted returns the next events that are not published, with consecutive numbers. A batch
// ends where the number of a deleted build is missing. platform is the address of this platform,
// whose users the events name.
func (s Store) Uncounted(ctx context.Context, c Counting, platform string, most int) (*metricsv1.Batch, error) {
	b := &metricsv1.Batch{}
	query := `
		SELECT c.source, b.` + c.number + `, b.engine, b.created_at, b.started_at, b.completed_at, b.endpoint, b.user_id, b.workspace_id, b.robot_org_id, b.email
		FROM build_builds b, ` + c.table + ` c
		WHERE c.id = 1 AND b.` + c.number + ` > 0 AND b.` + c.number + ` > c.published ORDER BY b.` + c.number + ` LIMIT $1`
	rows, err := s.db.QueryContext(ctx, query, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var number int64
		var of counted
		id := &platformv1.Identity{}
		if err := rows.Scan(&b.Source, &number, &of.engine, sqldb.ScanTime(&of.created), sqldb.ScanTime(&of.started), sqldb.ScanTime(&of.completed),
			&id.Endpoint, &id.UserId, &id.WorkspaceId, &id.RobotOrgId, &id.Email); err != nil {
			return nil, err
		}
		of.owner = id
		if len(b.GetEvents()) == 0 {
			b.First = number
		}
		if number != b.GetFirst()+int64(len(b.GetEvents())) {
			break
		}
		b.Events = append(b.Events, c.event(of, platform))
	}
	return b, rows.Err()
}

// MarkCounted records that the events up to this number are published.
func (s Store) MarkCounted(ctx context.Context, c Counting, number int64) error {
	_, err := s.change(ctx, `UPDATE `+c.table+` SET published = $1 WHERE id = 1 AND published < $1`, number)
	return err
}
