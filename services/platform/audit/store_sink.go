package audit

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// A SinkState is how far the audit trail was written to its sink.
type SinkState struct {
	// Waiting is the number of events that the sink has not accepted yet, and Oldest when the
	// first of them happened; zero if none waits.
	Waiting int64
	Oldest  time.Time
	// Written is when the sink has last accepted events.
	Written time.Time
	// Lost is the number of events that were deleted before the sink accepted them, and LostAt
	// when the last of them was noticed.
	Lost   int64
	LostAt time.Time
	// Problem is why events cannot be written, and Failing since when; "" and zero if they can.
	Problem string
	Failing time.Time
	// Claimed is when a process has last claimed the right to write; zero if none has.
	Claimed time.Time
}

// firstStored is the SQL expression of the number before the first stored event. The chain may
// begin later.
const firstStored = `coalesce((SELECT min(sequence) FROM platform_audit) - 1, (SELECT sequence FROM platform_audit_chain WHERE id = 1), 0)`

// SinkState returns how far the audit trail was written to the sink. It is the zero value if no
// process had a sink yet.
func (l Log) SinkState(ctx context.Context) (s SinkState, err error) {
	var written, start, head int64
	err = l.DB.QueryRowContext(ctx, `
		SELECT s.sequence, s.written_at, s.lost, s.lost_at, s.problem, s.failing_since, s.seen_at, `+firstStored+`, coalesce(c.sequence, 0),
			coalesce((SELECT e.at FROM platform_audit e WHERE e.sequence > s.sequence ORDER BY e.sequence LIMIT 1), 0)
		FROM platform_audit_sink s LEFT JOIN platform_audit_chain c ON c.id = 1 WHERE s.id = 1`).
		Scan(&written, sqldb.ScanTime(&s.Written), &s.Lost, sqldb.ScanTime(&s.LostAt), &s.Problem, sqldb.ScanTime(&s.Failing), sqldb.ScanTime(&s.Claimed),
			&start, &head, sqldb.ScanTime(&s.Oldest))
	if errors.Is(err, sql.ErrNoRows) {
		return SinkState{}, nil
	}
	if err != nil {
		return SinkState{}, l.DB.Wrap(err)
	}
	if start > written { // the writer has not noticed it yet
		if now := l.Now(); now.Sub(s.Claimed) <= limits.AuditSinkHold {
			s.Lost, s.LostAt = s.Lost+start-written, now
		}
		written = start
	}
	s.Waiting = max(head-written, 0)
	return s, nil
}

// A sinkStore stores the progress of one Forwarder.
type sinkStore struct {
	db     *sqldb.DB
	holder string
}

// create creates the row if it does not exist. Events that were deleted before do not count as
// lost.
func (s sinkStore) create(ctx context.Context, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_audit_sink (id, sequence, holder, held_until, seen_at, written_at, lost, lost_at, problem, failing_since)
		VALUES (1, `+firstStored+`, '', 0, 0, $1, 0, 0, '', 0)
		ON CONFLICT (id) DO NOTHING`, sqldb.Micros(now))
	return s.db.Wrap(err)
}

// claim takes or extends the lease, and returns the newest written event. It returns false if
// another process has the lease. Events that were deleted because no process had a sink for
// limits.AuditSinkHold do not count as lost.
func (s sinkStore) claim(ctx context.Context, now, until time.Time) (sequence int64, ok bool, err error) {
	err = s.db.QueryRowContext(ctx, `
		UPDATE platform_audit_sink SET holder = $1, held_until = $2, seen_at = $3,
			sequence = CASE WHEN seen_at < $4 AND sequence < `+firstStored+` THEN `+firstStored+` ELSE sequence END
		WHERE id = 1 AND (holder = $1 OR held_until <= $3) RETURNING sequence`,
		s.holder, sqldb.Micros(until), sqldb.Micros(now), sqldb.Micros(now.Add(-limits.AuditSinkHold))).Scan(&sequence)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return sequence, err == nil, s.db.Wrap(err)
}

// written stores that the sink has accepted the events up to a position. It returns false if
// another process has the lease.
func (s sinkStore) written(ctx context.Context, p progress, now time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		UPDATE platform_audit_sink SET sequence = $3, written_at = $5, lost = lost + $4, lost_at = CASE WHEN $4 > 0 THEN $5 ELSE lost_at END, problem = '', failing_since = 0
		WHERE id = 1 AND holder = $1 AND sequence = $2`, s.holder, p.from, p.to, p.lost, sqldb.Micros(now)))
}

// works stores that events can be written.
func (s sinkStore) works(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `UPDATE platform_audit_sink SET problem = '', failing_since = 0 WHERE id = 1 AND holder = $1 AND failing_since > 0`, s.holder)
	return s.db.Wrap(err)
}

// failed stores that events cannot be written. It retains the lease until a time; zero releases
// it, so that another process may try.
func (s sinkStore) failed(ctx context.Context, problem string, now, until time.Time) error {
	holder := s.holder
	if until.IsZero() {
		holder = ""
	}
	_, err := s.db.ExecContext(ctx, `
		UPDATE platform_audit_sink SET problem = $2, failing_since = CASE WHEN failing_since = 0 THEN $3 ELSE failing_since END, holder = $4, held_until = $5
		WHERE id = 1 AND holder = $1`, s.holder, problem, sqldb.Micros(now), holder, sqldb.Micros(until))
	return s.db.Wrap(err)
}

// release releases the lease.
func (s sinkStore) release(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `UPDATE platform_audit_sink SET holder = '', held_until = 0 WHERE id = 1 AND holder = $1`, s.holder)
	return s.db.Wrap(err)
}

// after returns the events after a sequence number, oldest first.
func (s sinkStore) after(ctx context.Context, sequence int64, limit int) ([]Record, error) {
	return sqldb.Listing[Record]{
		Read: `SELECT ` + recordColumns + ` FROM platform_audit WHERE sequence > $1 ORDER BY sequence LIMIT $2`, Scan: scanRecord,
	}.All(ctx, s.db, sequence, limit)
}
