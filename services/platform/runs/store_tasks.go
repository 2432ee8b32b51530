package runs

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// batch is the number of tasks that one query reads, and rowsPerInsert the number that one
// statement writes. SQLite is slow to parse many parameters.
const (
	batch         = 200
	rowsPerInsert = 25
)

const taskColumns = `task_id, status, document, created_at, updated_at`

func (t *task) scan(scan func(...any) error) error {
	var created, updated int64
	var document string
	if err := scan(&t.id, &t.status, &document, &created, &updated); err != nil {
		return err
	}
	t.created, t.updated = sqldb.Time(created), sqldb.Time(updated)
	var err error
	t.document, err = readObject(document)
	return err
}

// tasksOf returns the tasks of a run with the given ids, whose number must not exceed batch.
func tasksOf(ctx context.Context, tx *sql.Tx, workflowID string, ids []int64) (map[int64]task, error) {
	args := []any{workflowID}
	for _, id := range ids {
		args = append(args, id)
	}
	q := strings.Replace(`SELECT `+taskColumns+` FROM platform_tasks WHERE workflow_id = $1 AND task_id IN (…)`, "(…)", sqldb.Placeholders(2, 1, len(ids)), 1)
	rows, err := tx.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int64]task{}
	for rows.Next() {
		var t task
		if err := t.scan(rows.Scan); err != nil {
			return nil, err
		}
		out[t.id] = t
	}
	return out, rows.Err()
}

// putTasks inserts or replaces tasks.
func putTasks(ctx context.Context, tx *sql.Tx, workflowID string, tasks []task) error {
	for part := range slices.Chunk(tasks, rowsPerInsert) {
		if err := putTaskRows(ctx, tx, workflowID, part); err != nil {
			return err
		}
	}
	return nil
}

func putTaskRows(ctx context.Context, tx *sql.Tx, workflowID string, tasks []task) error {
	var args []any
	for _, t := range tasks {
		d := t.document
		args = append(args, workflowID, t.id, t.status, d.column("name"), d.column("process"), t.searchableText(),
			sqldb.Micros(d.time("submit")), sqldb.Micros(d.time("start")), sqldb.Micros(d.time("complete")),
			sqldb.Micros(t.created), sqldb.Micros(t.updated), d.String())
	}
	q := strings.Replace(`INSERT INTO platform_tasks (workflow_id, task_id, status, name, process, search,
			submitted_at, started_at, completed_at, created_at, updated_at, document) VALUES (…)
		ON CONFLICT (workflow_id, task_id) DO UPDATE SET status = excluded.status, name = excluded.name, process = excluded.process,
			search = excluded.search, submitted_at = excluded.submitted_at, started_at = excluded.started_at,
			completed_at = excluded.completed_at, updated_at = excluded.updated_at, document = excluded.document`,
		"(…)", sqldb.Placeholders(1, len(tasks), 12), 1)
	_, err := tx.ExecContext(ctx, q, args...)
	return err
}

// readCountsOf returns the counts of a run within a transaction that changes the run.
func readCountsOf(ctx context.Context, tx *sql.Tx, workflowID string) (counts, error) {
	var text string
	rows, err := tx.QueryContext(ctx, `SELECT counts FROM platform_progress WHERE workflow_id = $1`, workflowID)
	if err != nil {
		return counts{}, err
	}
	defer rows.Close()
	if rows.Next() {
		if err := rows.Scan(&text); err != nil {
			return counts{}, err
		}
	}
	if err := rows.Err(); err != nil {
		return counts{}, err
	}
	return readCounts(text)
}

// putCounts stores the counts of a run.
func putCounts(ctx context.Context, tx *sql.Tx, workflowID, text string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO platform_progress (workflow_id, counts) VALUES ($1, $2)
		ON CONFLICT (workflow_id) DO UPDATE SET counts = excluded.counts`, workflowID, text)
	return err
}

// task returns a task of a run, or fault.NotFound.
func (s store) task(ctx context.Context, workflowID string, id int64) (t task, err error) {
	err = t.scan(s.db.QueryRowContext(ctx, `
		SELECT `+taskColumns+` FROM platform_tasks WHERE workflow_id = $1 AND task_id = $2`, workflowID, id).Scan)
	return t, s.db.NotFound("task", err)
}

// A taskFilter selects tasks of a run.
type taskFilter struct {
	statuses []string // any if empty
	process  string   // any if empty
}

// tasks returns a page of a run's tasks and their total number. order is an ORDER BY clause with
// a column of taskOrders.
func (s store) tasks(ctx context.Context, workflowID string, of taskFilter, order string, p sqldb.Page) ([]task, int, error) {
	var f filter
	f.and("workflow_id = ?", workflowID)
	if len(of.statuses) > 0 {
		f.in("status", of.statuses)
	}
	if of.process != "" {
		f.and("process = ?", of.process)
	}
	if p.Like != sqldb.Like("") { // without a search, the count reads the index only
		f.and(`search LIKE ? ESCAPE '\'`, p.Like)
	}
	return sqldb.Listing[task]{
		Count: f.query(`SELECT count(*) FROM platform_tasks`, ``, false),
		Read:  f.query(`SELECT `+taskColumns+` FROM platform_tasks`, order, true),
		Scan: func(r *sql.Rows) (t task, err error) {
			err = t.scan(r.Scan)
			t.document.truncate(limits.ListedTask)
			return t, err
		},
	}.Page(ctx, s.db, p, f.args...)
}

// taskOrders returns the columns and expressions that tasks can be sorted by, by the name in a
// request.
func taskOrders() map[string]string {
	return map[string]string{
		// Failed tasks are first, the latest of them before the others.
		"outcome": "CASE status WHEN 'FAILED' THEN -completed_at WHEN 'ABORTED' THEN 1 WHEN 'RUNNING' THEN 2 WHEN 'SUBMITTED' THEN 3 WHEN 'NEW' THEN 4 WHEN 'COMPLETED' THEN 5 ELSE 6 END",
		"":        "task_id", "taskId": "task_id", "name": "name", "process": "process", "status": "status",
		"submit": "submitted_at", "start": "started_at", "complete": "completed_at",
	}
}
