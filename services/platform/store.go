package platform

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// store is the tables platform_*.
type store struct{ db *sqldb.DB }

// notFound turns an empty answer into fault.NotFound.
func (s store) notFound(what string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.NotFound.New("There is no such "+what, err)
	}
	return lost(s.db, err)
}

// lost marks an error of a database that is not there as worth another try.
func lost(db *sqldb.DB, err error) error {
	if _, known := fault.As(err); err == nil || known || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return db.Fault("asking the database", err)
}

// changed says whether a statement did anything. One that would have taken a
// name that is taken did not.
func (s store) changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		if isTaken(err) {
			return false, nil
		}
		return false, lost(s.db, err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// isTaken knows a broken UNIQUE on either engine.
func isTaken(err error) bool {
	return strings.Contains(err.Error(), "SQLSTATE 23505") || strings.Contains(err.Error(), "UNIQUE constraint failed")
}

// tx runs f in a transaction.
func (s store) tx(ctx context.Context, f func(*sql.Tx) error) error {
	t, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.db.Fault("beginning a transaction", err)
	}
	if err := f(t); err != nil {
		_ = t.Rollback() // what went wrong before says more
		return lost(s.db, err)
	}
	if err := t.Commit(); err != nil {
		return s.db.Fault("ending a transaction", err)
	}
	return nil
}

// page is a part of a list.
type page struct {
	limit, offset int
	like          string // of a LIKE with ESCAPE '\', in lower case
}

// like makes a pattern of a text: `*` is anything, the rest is itself.
func like(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(strings.ToLower(s))
	return "%" + s + "%"
}

// listing is a query in two parts: what counts, and what reads. Its last two
// parameters are limit and offset, which the counting one leaves out.
type listing[T any] struct {
	count, read string
	scan        func(*sql.Rows) (T, error)
}

// run reads a page, and counts what is beyond it: a page that is not full tells
// the number by itself.
func (l listing[T]) run(ctx context.Context, db *sqldb.DB, p page, args ...any) ([]T, int, error) {
	out, err := l.all(ctx, db, append(slices.Clip(args), p.limit, p.offset)...)
	if err != nil || l.count == "" {
		return out, 0, err
	}
	if total := p.offset + len(out); len(out) < p.limit && (len(out) > 0 || p.offset == 0) {
		return out, total, nil
	}
	total := 0
	err = db.QueryRowContext(ctx, l.count, args...).Scan(&total)
	return out, total, lost(db, err)
}

// all reads without counting.
func (l listing[T]) all(ctx context.Context, db *sqldb.DB, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, l.read, args...)
	if err != nil {
		return nil, lost(db, err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := l.scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// audit adds a row to the trail.
func (s store) audit(ctx context.Context, e event, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO platform_audit (id, at, user_id, workspace_id, action, subject, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		newID(), sqldb.Micros(now), e.userID, e.workspaceID, e.action, e.subject, e.requestID)
	return lost(s.db, err)
}

// deleteAudit removes the part of the trail before an instant.
func (s store) deleteAudit(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_audit WHERE at < $1`, sqldb.Micros(before))
	return lost(s.db, err)
}

// deleteEnded removes pairings, sign-ins and codes whose time is over.
func (s store) deleteEnded(ctx context.Context, now time.Time) error {
	var problems []error
	for _, table := range []string{"platform_pairings", "platform_sessions", "platform_codes", "platform_sign_ins"} {
		_, err := s.db.ExecContext(ctx, `DELETE FROM `+table+` WHERE expires_at <= $1`, sqldb.Micros(now))
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// few refuses one more row where a table has as many as there may be. Those who ask
// at the same moment may have one more each. The names are ours, never a user's.
func (s store) few(ctx context.Context, what string, limit int, from string, args ...any) error {
	var n int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM `+from, args...).Scan(&n); err != nil {
		return fmt.Errorf("counting %s: %w", what, lost(s.db, err))
	}
	return room(what, n, limit)
}

// event is what somebody did with a secret.
type event struct {
	userID, workspaceID        int64
	action, subject, requestID string
}
