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

// store is the tables metrics_*.
type store struct{ db *sqldb.DB }

// allDays is the day under which the sum of all days is kept: a question without
// a date reads as few rows as one with.
const allDays = ""

// errOvertaken says that another replica has counted events of the same source
// in this very moment.
var errOvertaken = errors.New("another replica counts the same source")

// last is the ordinal of the last event of a source that is counted; 0 for none.
func (s store) last(ctx context.Context, source string) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT last FROM metrics_sources WHERE source = $1`, source).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// progress is how far a source's events are counted, before and after.
type progress struct {
	source   string
	from, to int64
}

// add counts events, all or none, and moves their source on in the same
// transaction. errOvertaken when the source is not where it was thought to be.
func (s store) add(ctx context.Context, p progress, counts map[eventKey]int64, now time.Time) (err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if err := move(ctx, tx, p, now); err != nil {
		return err
	}
	// In one order, so that two transactions cannot wait for each other.
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b eventKey) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(a.day, b.day), cmp.Compare(a.org, b.org))
	})
	for _, k := range keys {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO metrics_counts (metric, day, org, events) VALUES ($1, $2, $3, $4)
			ON CONFLICT (metric, day, org) DO UPDATE SET events = metrics_counts.events + excluded.events`,
			string(k.metric), k.day, k.org, counts[k])
		if err != nil {
			return fmt.Errorf("counting %s: %w", k, err)
		}
	}
	return tx.Commit()
}

func move(ctx context.Context, tx *sql.Tx, p progress, now time.Time) error {
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
		return errors.Join(err, errOvertaken)
	}
	return nil
}

// forget removes sources that have been silent since a moment.
func (s store) forget(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM metrics_sources WHERE counted_at < $1`, sqldb.Micros(before))
	return err
}

// count returns one organisation's events of a day, or of all days.
func (s store) count(ctx context.Context, m metric, day, org string) (n float64, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT events FROM metrics_counts WHERE metric = $1 AND day = $2 AND org = $3`, string(m), day, org).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// orgs returns the events of a day, or of all days, by organisation.
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
