package metrics

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"slipway.dev/services/internal/sqldb"
)

// store accesses the tables metrics_*.
type store struct{ db *sqldb.DB }

// allDays is the day under which the sum of all days is stored, so that a query without a date
// reads as few rows as one with a date.
const allDays = ""

// errConcurrent is returned when another replica has counted events of the same source
// concurrently.
var errConcurrent = errors.New("another replica counts the same source")

// last returns the ordinal of the last counted event of a source; 0 for an unknown source.
func (s store) last(ctx context.Context, source string) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT last FROM metrics_sources WHERE source = $1`, source).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// A progress holds the ordinals of the last counted event of a source before and after a batch.
type progress struct {
	source   string
	from, to int64
}

// add adds totals and updates the progress of their source in one transaction. It returns
// errConcurrent if the stored ordinal of the source is not p.from.
func (s store) add(ctx context.Context, p progress, t totals, now time.Time) (err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if err := advance(ctx, tx, p, now); err != nil {
		return err
	}
	// A fixed order prevents deadlocks between transactions.
	keys := slices.SortedFunc(maps.Keys(t.counts), func(a, b eventKey) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(a.day, b.day), cmp.Compare(a.org, b.org))
	})
	for _, k := range keys {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO metrics_counts (metric, day, org, events) VALUES ($1, $2, $3, $4)
			ON CONFLICT (metric, day, org) DO UPDATE SET events = metrics_counts.events + excluded.events`,
			string(k.metric), k.day, k.org, t.counts[k])
		if err != nil {
			return fmt.Errorf("counting %s: %w", k, err)
		}
	}
	if err := addUsage(ctx, tx, t.usage); err != nil {
		return err
	}
	return tx.Commit()
}

// advance updates the stored ordinal of a source.
func advance(ctx context.Context, tx *sql.Tx, p progress, now time.Time) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO metrics_sources (source, last, counted_at) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING`, p.source)
	if err != nil {
		return err
	}
	res, err := tx.ExecContext(ctx, `
		UPDATE metrics_sources SET last = $2, counted_at = $3 WHERE source = $1 AND last = $4`,
		p.source, p.to, sqldb.Micros(now), p.from)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errConcurrent)
	}
	return nil
}

// deleteSources deletes sources without events since before.
func (s store) deleteSources(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM metrics_sources WHERE counted_at < $1`, sqldb.Micros(before))
	return err
}

// count returns the number of an organisation's events on a day, or in total for allDays.
func (s store) count(ctx context.Context, m metric, day, org string) (n float64, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT events FROM metrics_counts WHERE metric = $1 AND day = $2 AND org = $3`, string(m), day, org).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// orgs returns the number of events by organisation on a day, or in total for allDays.
func (s store) orgs(ctx context.Context, m metric, day string) (map[string]float64, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT org, events FROM metrics_counts WHERE metric = $1 AND day = $2`, string(m), day)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]float64{}
	for rows.Next() {
		var org string
		var n float64
		if err := rows.Scan(&org, &n); err != nil {
			return nil, err
		}
		out[org] = n
	}
	return out, rows.Err()
}
