package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
)

// For counting, builds get consecutive numbers in SQL. The table build_counting has the last
// number that was assigned, and the last that was published on the bus.

// Number assigns numbers to up to most builds, and reports whether more builds may be left.
// Replicas wait for each other.
func (s Store) Number(ctx context.Context, most int) (more bool, err error) {
	waits, err := s.count(ctx, `counted = 0 AND engine <> $1`, engine.Index)
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
	n, err := numberIn(ctx, tx, most)
	if err != nil {
		return false, err
	}
	return n == most, tx.Commit()
}

func numberIn(ctx context.Context, tx *sql.Tx, most int) (int, error) {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO build_counting (id, source, numbered, published) VALUES (1, $1, 0, 0) ON CONFLICT DO NOTHING`, rand.Text())
	if err != nil {
		return 0, err
	}
	var last int64 // this update locks out other replicas until the commit
	if err := tx.QueryRowContext(ctx, `UPDATE build_counting SET numbered = numbered WHERE id = 1 RETURNING numbered`).Scan(&last); err != nil {
		return 0, err
	}
	ids, err := idsIn(ctx, tx, most)
	if err != nil {
		return 0, err
	}
	for i, id := range ids {
		if _, err := tx.ExecContext(ctx, `UPDATE build_builds SET counted = $2 WHERE id = $1`, id, last+int64(i)+1); err != nil {
			return 0, err
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE build_counting SET numbered = $1 WHERE id = 1`, last+int64(len(ids)))
	return len(ids), err
}

func idsIn(ctx context.Context, tx *sql.Tx, most int) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT id FROM build_builds WHERE counted = 0 AND engine <> $1 ORDER BY created_at, id LIMIT $2`, engine.Index, most)
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

// Uncounted returns the next builds that are not published, with consecutive numbers. A batch
// ends where the number of a deleted build is missing.
func (s Store) Uncounted(ctx context.Context, most int) (*metricsv1.Batch, error) {
	b := &metricsv1.Batch{}
	rows, err := s.db.QueryContext(ctx, `
		SELECT c.source, b.counted, b.created_at, b.email FROM build_builds b, build_counting c
		WHERE b.counted > 0 AND b.counted > c.published ORDER BY b.counted LIMIT $1`, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var number, created int64
		var email string
		if err := rows.Scan(&b.Source, &number, &created, &email); err != nil {
			return nil, err
		}
		if len(b.GetEvents()) == 0 {
			b.First = number
		}
		if number != b.GetFirst()+int64(len(b.GetEvents())) {
			break
		}
		b.Events = append(b.Events, &metricsv1.Event{
			Metric: metricsv1.Metric_METRIC_BUILDS,
			Day:    int32(sqldb.Time(created).Unix() / (24 * 60 * 60)),
			Org:    caller.Organisation(&platformv1.Identity{Email: email}),
		})
	}
	return b, rows.Err()
}

// MarkCounted records that the numbers up to this one are published.
func (s Store) MarkCounted(ctx context.Context, number int64) error {
	_, err := s.change(ctx, `UPDATE build_counting SET published = $1 WHERE id = 1 AND published < $1`, number)
	return err
}
