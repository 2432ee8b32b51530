package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
)

// prepared returns the prepared statement of a query, on SQLite only: the PostgreSQL driver
// has its own cache. Queries are constants, so that the number of statements needs no
// limit.
func (db *DB) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt, ok := db.statements.Load(text); ok {
		return stmt.(*sql.Stmt), nil //nolint:forcetypeassert // nothing else is stored
	}
	stmt, err := db.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("preparing a statement: %w", err)
	}
	stored, exists := db.statements.LoadOrStore(text, stmt)
	if exists {
		_ = stmt.Close() //nolint:sqlclosecheck // the stored one remains open
	}
	return stored.(*sql.Stmt), nil //nolint:forcetypeassert // nothing else is stored
}

// PreparedRow is like QueryRowContext for a frequent query, which must be a constant. The
// statement remains prepared.
func (db *DB) PreparedRow(ctx context.Context, text string, args ...any) *sql.Row {
	if db.IsSQLite() {
		if stmt, err := db.prepared(ctx, text); err == nil { //nolint:sqlclosecheck // it remains prepared
			return stmt.QueryRowContext(ctx, args...)
		}
	}
	return db.QueryRowContext(ctx, text, args...) // returns the error in its Row
}

// PreparedQuery is PreparedRow for several rows.
func (db *DB) PreparedQuery(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if db.IsSQLite() {
		if stmt, err := db.prepared(ctx, text); err == nil { //nolint:sqlclosecheck // it remains prepared
			return stmt.QueryContext(ctx, args...)
		}
	}
	return db.QueryContext(ctx, text, args...) // returns the error
}

// PreparedExec is PreparedRow for a statement that returns no rows.
func (db *DB) PreparedExec(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if db.IsSQLite() {
		if stmt, err := db.prepared(ctx, text); err == nil { //nolint:sqlclosecheck // it remains prepared
			return stmt.ExecContext(ctx, args...)
		}
	}
	return db.ExecContext(ctx, text, args...) // returns the error
}

// NotFound returns fault.NotFound, "No such <what>", for sql.ErrNoRows. It treats other
// errors like Wrap.
func (db *DB) NotFound(what string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.NotFound.Newf("No such %s", what)
	}
	return db.Wrap(err)
}

// Wrap converts an error of the database to a fault as Fault does. Faults and context
// errors are returned unchanged.
func (db *DB) Wrap(err error) error {
	if _, known := fault.As(err); err == nil || known || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return db.Fault("querying the database", err)
}

// Changed reports whether a statement changed any row. A violation of a UNIQUE constraint
// counts as no change.
func (db *DB) Changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		if isDuplicate(err) {
			return false, nil
		}
		return false, db.Wrap(err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// isDuplicate reports whether err is a violation of a UNIQUE constraint, on either engine.
func isDuplicate(err error) bool {
	return strings.Contains(err.Error(), "SQLSTATE 23505") || strings.Contains(err.Error(), "UNIQUE constraint failed")
}

// Tx calls f in a transaction, and rolls it back if f returns an error.
func (db *DB) Tx(ctx context.Context, f func(*sql.Tx) error) error {
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return db.Fault("beginning a transaction", err)
	}
	if err := f(t); err != nil {
		_ = t.Rollback() // the first error is more useful
		return db.Wrap(err)
	}
	if err := t.Commit(); err != nil {
		return db.Fault("ending a transaction", err)
	}
	return nil
}

// A Page is the requested part of a list.
type Page struct {
	Limit, Offset int
	// Like is a pattern returned by the function Like, for a column in lower case.
	Like string
}

// Like returns a pattern for LIKE with ESCAPE '\'. It matches columns in lower case that
// contain s, in which `*` matches any text.
func Like(s string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(strings.ToLower(s)) + "%"
}

// Prefix returns a pattern for LIKE with ESCAPE '\'. It matches columns that begin with s.
func Prefix(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s) + "%"
}

// Placeholders returns the parameters of rows, such as "($1, $2), ($3, $4)", beginning with
// first.
func Placeholders(first, rows, columns int) string {
	var b strings.Builder
	for r := range rows {
		if r > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('(')
		for c := range columns {
			if c > 0 {
				b.WriteString(", ")
			}
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(first + r*columns + c))
		}
		b.WriteByte(')')
	}
	return b.String()
}

// In returns a list for the operator IN and its arguments, $1 and following. ids must not be empty.
func In(ids []int64) (list string, args []any) {
	for _, id := range ids {
		args = append(args, id)
	}
	return Placeholders(1, 1, len(ids)), args
}

// A Listing is a query that reads a list, and one that counts its rows. Count may be "".
type Listing[T any] struct {
	Count, Read string
	Scan        func(*sql.Rows) (T, error)
}

// Page returns a page of the list and the total number of rows. Count is only queried if
// the page does not show the total. The last two parameters of Read are the limit and the
// offset. Count does not have them.
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
	return out, total, db.Wrap(err)
}

// All returns the rows of Read without counting.
func (l Listing[T]) All(ctx context.Context, db *DB, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, l.Read, args...)
	if err != nil {
		return nil, db.Wrap(err)
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

// ScanTime returns a scanner that stores a column written with Micros in t.
func ScanTime(t *time.Time) sql.Scanner { return (*timeScanner)(t) }

type timeScanner time.Time

func (i *timeScanner) Scan(v any) error {
	micros, ok := v.(int64)
	if !ok {
		return errors.New("a time column is not an integer")
	}
	*i = timeScanner(Time(micros))
	return nil
}
