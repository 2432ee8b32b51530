package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
)

// prepared prepares a text when it is first used, on SQLite: Postgres's driver keeps its own
// statements. Texts are those in the code, so there is no bound to how many it keeps.
func (db *DB) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt, ok := db.statements.Load(text); ok {
		return stmt.(*sql.Stmt), nil //nolint:forcetypeassert // nothing else is stored
	}
	stmt, err := db.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("preparing a statement: %w", err)
	}
	kept, lost := db.statements.LoadOrStore(text, stmt)
	if lost {
		_ = stmt.Close() //nolint:sqlclosecheck // the other one stays open
	}
	return kept.(*sql.Stmt), nil //nolint:forcetypeassert // nothing else is stored
}

// PreparedRow is QueryRowContext for a text that is asked often, and is a constant: it
// stays prepared.
func (db *DB) PreparedRow(ctx context.Context, text string, args ...any) *sql.Row {
	if db.IsSQLite() {
		if stmt, err := db.prepared(ctx, text); err == nil { //nolint:sqlclosecheck // it stays prepared
			return stmt.QueryRowContext(ctx, args...)
		}
	}
	return db.QueryRowContext(ctx, text, args...) // says what is wrong
}

// NotFound turns an empty result into fault.NotFound, "No such <what>". Any other
// error is as Lost has it.
func (db *DB) NotFound(what string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.NotFound.Newf("No such %s", what)
	}
	return db.Lost(err)
}

// Lost marks an error of a database that cannot be reached as worth another try. A
// fault, and the end of a context, stay what they are.
func (db *DB) Lost(err error) error {
	if _, known := fault.As(err); err == nil || known || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return db.Fault("asking the database", err)
}

// Changed says whether a statement did anything. One that would have taken a name
// that is taken did not.
func (db *DB) Changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		if isTaken(err) {
			return false, nil
		}
		return false, db.Lost(err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// isTaken knows a broken UNIQUE on either engine.
func isTaken(err error) bool {
	return strings.Contains(err.Error(), "SQLSTATE 23505") || strings.Contains(err.Error(), "UNIQUE constraint failed")
}

// Tx runs f in a transaction, which f's error rolls back.
func (db *DB) Tx(ctx context.Context, f func(*sql.Tx) error) error {
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return db.Fault("beginning a transaction", err)
	}
	if err := f(t); err != nil {
		_ = t.Rollback() // what went wrong before says more
		return db.Lost(err)
	}
	if err := t.Commit(); err != nil {
		return db.Fault("ending a transaction", err)
	}
	return nil
}

// Page is a part of a list.
type Page struct {
	Limit, Offset int
	// Like is a pattern as Like makes it, for a column in lower case.
	Like string
}

// Like makes a pattern of a text, for LIKE with ESCAPE '\': `*` is anything, the rest
// is itself, anywhere in the column.
func Like(s string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(strings.ToLower(s)) + "%"
}

// Listing is a query in two parts: one that counts, "" for none, and one that reads.
type Listing[T any] struct {
	Count, Read string
	Scan        func(*sql.Rows) (T, error)
}

// Page reads a page, and counts what is beyond it: a page that is not full tells the
// number by itself. The last two parameters of Read are limit and offset, which Count
// does not have.
func (l Listing[T]) Page(ctx context.Context, db *DB, p Page, args ...any) ([]T, int, error) {
	out, err := l.All(ctx, db, append(slices.Clip(args), p.Limit, p.Offset)...)
	if err != nil || l.Count == "" {
		return out, 0, err
	}
	if total := p.Offset + len(out); len(out) < p.Limit && (len(out) > 0 || p.Offset == 0) {
		return out, total, nil
	}
	total := 0
	err = db.QueryRowContext(ctx, l.Count, args...).Scan(&total)
	return out, total, db.Lost(err)
}

// All reads without counting.
func (l Listing[T]) All(ctx context.Context, db *DB, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, l.Read, args...)
	if err != nil {
		return nil, db.Lost(err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := l.Scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// Into scans a column that Micros wrote into a time.
func Into(t *time.Time) sql.Scanner { return (*instant)(t) }

type instant time.Time

func (i *instant) Scan(v any) error {
	micros, ok := v.(int64)
	if !ok {
		return errors.New("a time is not stored as a number")
	}
	*i = instant(Time(micros))
	return nil
}
