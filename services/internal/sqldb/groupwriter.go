package sqldb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"slipway.dev/services/internal/limits"
)

// groupTimeout is the timeout for writing a group. SQLite has its own busy_timeout.
const groupTimeout = 10 * time.Second

// A GroupWriter executes one writing statement for many concurrent callers. Calls that
// arrive while others are being written form a group, which is written next in one
// transaction, on PostgreSQL in one round trip. Calls never wait for a group to fill. A
// GroupWriter is safe for concurrent use, and stores nothing but the arguments of waiting
// calls.
type GroupWriter struct {
	db    *DB
	query string
	// maxWriters is the number of groups that may be written concurrently. SQLite allows one.
	maxWriters int

	mu      sync.Mutex
	waiting []*execution
	writers int
}

type execution struct {
	args []any
	done chan error // has a capacity of 1
}

// NewGroupWriter returns a GroupWriter for a statement that does not return rows. Its
// tables may be created later.
func (db *DB) NewGroupWriter(query string) *GroupWriter {
	t := &GroupWriter{db: db, query: query, maxWriters: 4}
	if db.IsSQLite() {
		t.maxWriters = 1
	}
	return t
}

// Exec executes the statement. It returns after the transaction with its row was committed,
// or with the error that this row caused. If ctx is done before, the row may or may not
// have been written. Errors and cancellation do not affect the rows of other callers.
func (t *GroupWriter) Exec(ctx context.Context, args ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := &execution{args: args, done: make(chan error, 1)}
	t.join(e)
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		t.leave(e)
		return ctx.Err()
	}
}

func (t *GroupWriter) join(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, e)
	if t.writers < t.maxWriters {
		t.writers++
		go t.write()
	}
}

// leave removes an execution that is not being written yet.
func (t *GroupWriter) leave(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(other *execution) bool { return other == e })
}

// write writes groups until no call waits.
func (t *GroupWriter) write() {
	for group := t.next(); len(group) > 0; group = t.next() {
		t.commit(group)
	}
}

// next returns the next group. If the group is empty, the writer must end.
func (t *GroupWriter) next() []*execution {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), limits.RowsTogether)
	group := slices.Clone(t.waiting[:n])
	t.waiting = slices.Delete(t.waiting, 0, n)
	if n == 0 {
		t.writers--
	}
	return group
}

// commit writes a group and reports the result to each caller. If the database rejects a
// row, the group is written in halves, so that the other rows are stored.
func (t *GroupWriter) commit(group []*execution) {
	err := t.transact(group)
	if n := len(group) / 2; n > 0 && isUndone(err) {
		t.commit(group[:n])
		t.commit(group[n:])
		return
	}
	for _, e := range group {
		e.done <- err
	}
}

// errUndone marks an error after which the transaction was rolled back.
type errUndone struct{ error }

func (e errUndone) Unwrap() error { return e.error }

// isUndone reports whether it is certain that nothing was written and that the database is
// available for a retry.
func isUndone(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return !isShutdown(refused.Code)
	}
	return errors.As(err, new(errUndone))
}

func (t *GroupWriter) transact(group []*execution) error {
	if !t.db.IsSQLite() {
		return t.pipeline(group)
	}
	// A cancellable context would cost a goroutine for each statement.
	ctx := context.Background()
	stmt, err := t.db.prepared(ctx, t.query)
	if err != nil {
		return err
	}
	if len(group) == 1 {
		_, err := stmt.ExecContext(ctx, group[0].args...)
		return err
	}
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	inside := tx.StmtContext(ctx, stmt) //nolint:sqlclosecheck // it ends with the transaction
	for _, e := range group {
		if _, err := inside.ExecContext(ctx, e.args...); err != nil {
			return errors.Join(errUndone{err}, tx.Rollback())
		}
	}
	return tx.Commit()
}

// pipeline sends a group in one batch, which PostgreSQL's protocol executes in one
// transaction.
func (t *GroupWriter) pipeline(group []*execution) error {
	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	if len(group) == 1 {
		_, err := t.db.ExecContext(ctx, t.query, group[0].args...)
		return err
	}
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	var batch pgx.Batch
	for _, e := range group {
		batch.Queue(t.query, e.args...)
	}
	err = conn.Raw(func(driver any) error {
		return driver.(*stdlib.Conn).Conn().SendBatch(ctx, &batch).Close() //nolint:forcetypeassert // open uses this driver
	})
	return errors.Join(err, conn.Close())
}
