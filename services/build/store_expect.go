package build

import (
	"context"
	"time"

	"slipway.dev/services/internal/sqldb"
)

// loads reads what runs, since when it does, and then what waits before a build, the
// oldest first.
func (s store) loads(ctx context.Context, r record, limit int) ([]load, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT engine, architecture, CASE WHEN started_at > 0 THEN worker ELSE '' END, started_at
		FROM build_builds WHERE state = 'PENDING' AND engine <> $1 AND (started_at > 0 OR created_at < $2)
		ORDER BY CASE WHEN started_at > 0 THEN 0 ELSE 1 END, created_at, id LIMIT $3`,
		engineIndex, sqldb.Micros(r.created), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []load
	for rows.Next() {
		var l load
		var started int64
		if err := rows.Scan(&l.kind.engine, &l.kind.architecture, &l.worker, &started); err != nil {
			return nil, err
		}
		l.started = sqldb.Time(started)
		out = append(out, l)
	}
	return out, rows.Err()
}

// lengths reads how long the newest builds of a kind took that a worker made since a
// moment.
func (s store) lengths(ctx context.Context, c capability, since time.Time, limit int) ([]time.Duration, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT completed_at - started_at FROM build_builds
		WHERE engine = $1 AND architecture = $2 AND completed_at >= $3 AND state = 'COMPLETED' AND succeeded AND started_at > 0
		ORDER BY completed_at DESC LIMIT $4`, c.engine, c.architecture, sqldb.Micros(since), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []time.Duration
	for rows.Next() {
		var micros int64
		if err := rows.Scan(&micros); err != nil {
			return nil, err
		}
		out = append(out, time.Duration(micros)*time.Microsecond)
	}
	return out, rows.Err()
}
