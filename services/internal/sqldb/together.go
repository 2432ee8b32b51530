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

// togetherPatience is how long a group may take; SQLite has its own busy_timeout.
const togetherPatience = 10 * time.Second

// Together is one statement that writes, for many callers at a time: what comes while
// others are written is written next, in one transaction, on Postgres in one round trip.
// Nobody waits for company. Safe for concurrent use; it holds no more than its callers
// bring.
type Together struct {
	db   *DB
	text string
	// atOnce is how many groups may be under way: SQLite has one writer.
	atOnce int

	mu      sync.Mutex
	waiting []*execution
	writing int
}

type execution struct {
	args []any
	done chan error // holds one
}

// Together makes one of a statement, which must not read. Its tables may be made later.
func (db *DB) Together(text string) *Together {
	t := &Together{db: db, text: text, atOnce: 4}
	if db.IsSQLite() {
		t.atOnce = 1
	}
	return t
}

// Exec returns when the transaction that its row is written in has been committed, or
// with what the database has against this row alone. When ctx ends first, its row may have been
// written; that of nobody else is any worse for it.
func (t *Together) Exec(ctx context.Context, args ...any) error {
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

func (t *Together) join(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, e)
	if t.writing < t.atOnce {
		t.writing++
		go t.write()
	}
}

// leave takes back what nobody has begun to write.
func (t *Together) leave(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(other *execution) bool { return other == e })
}

// write writes groups until nobody waits.
func (t *Together) write() {
	for group := t.next(); len(group) > 0; group = t.next() {
		t.commit(group)
	}
}

// next takes a group; none ends this writer.
func (t *Together) next() []*execution {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), limits.RowsTogether)
	group := slices.Clone(t.waiting[:n])
	t.waiting = slices.Delete(t.waiting, 0, n)
	if n == 0 {
		t.writing--
	}
	return group
}

// commit writes a group and tells each caller. One that has a row which the database does not
// take is written in halves, so that the others' rows are.
func (t *Together) commit(group []*execution) {
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

// errUndone marks a transaction of which nothing was written.
type errUndone struct{ error }

func (e errUndone) Unwrap() error { return e.error }

// isUndone says whether it is certain that nothing was written, and that the database is
// there to be asked again.
func isUndone(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return !isShutdown(refused.Code)
	}
	return errors.As(err, new(errUndone))
}

func (t *Together) transact(group []*execution) error {
	if !t.db.IsSQLite() {
		return t.pipeline(group)
	}
	// A context that may end would cost a goroutine for each statement.
	ctx := context.Background()
	stmt, err := t.db.prepared(ctx, t.text)
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

// pipeline sends the group at once: what stands between two Syncs of Postgres's protocol is one
// transaction.
func (t *Together) pipeline(group []*execution) error {
	ctx, cancel := context.WithTimeout(context.Background(), togetherPatience)
	defer cancel()
	if len(group) == 1 {
		_, err := t.db.ExecContext(ctx, t.text, group[0].args...)
		return err
	}
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	var batch pgx.Batch
	for _, e := range group {
		batch.Queue(t.text, e.args...)
	}
	err = conn.Raw(func(driver any) error {
		return driver.(*stdlib.Conn).Conn().SendBatch(ctx, &batch).Close() //nolint:forcetypeassert // open made it of this driver
	})
	return errors.Join(err, conn.Close())
}
