package runs

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/orgs"
)

const workflowColumns = `id, user_id, status, run_name, session_id, project_name, user_name,
	submitted_at, completed_at, heartbeat_at, created_at, updated_at, document, launch, metrics`

// listedColumns returns the columns for a list. Documents above the limit are replaced by an
// empty one.
func listedColumns() string {
	return strings.Replace(workflowColumns, "document, launch, metrics",
		`CASE WHEN length(document) > `+strconv.Itoa(limits.ListedRun)+` THEN '{}' ELSE document END, '', ''`, 1)
}

func (w *workflow) scan(scan func(...any) error) error {
	var submitted, completed, heartbeat, created, updated int64
	err := scan(&w.id, &w.userID, &w.status, &w.runName, &w.sessionID, &w.projectName, &w.userName,
		&submitted, &completed, &heartbeat, &created, &updated, &w.document, &w.launch, &w.metrics)
	w.submitted, w.completed, w.heartbeat = sqldb.Time(submitted), sqldb.Time(completed), sqldb.Time(heartbeat)
	w.created, w.updated = sqldb.Time(created), sqldb.Time(updated)
	return err
}

// insertWorkflow returns false if the id is taken.
func (s store) insertWorkflow(ctx context.Context, w workflow) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		INSERT INTO platform_workflows (id, user_id, workspace_id, space_user, status, run_name, session_id, project_name, user_name, search,
			submitted_at, completed_at, heartbeat_at, created_at, updated_at, document, launch, metrics)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $11, $11, $11, $12, '', '') ON CONFLICT DO NOTHING`,
		w.id, w.userID, w.space.ID(), w.space.Personal, w.status, w.runName, w.sessionID, w.projectName, w.userName, w.searchableText(),
		sqldb.Micros(w.created), w.document))
}

// workflow returns a run of a space, or fault.NotFound.
func (s store) workflow(ctx context.Context, in orgs.Space, id string) (workflow, error) {
	w := workflow{space: in}
	err := w.scan(s.db.QueryRowContext(ctx, `
		SELECT `+workflowColumns+` FROM platform_workflows WHERE id = $1 AND workspace_id = $2 AND space_user = $3`,
		id, in.ID(), in.Personal).Scan)
	return w, s.db.NotFound("run", err)
}

// changeWorkflow calls f, which may change a run and the rows that belong to it, in a
// transaction. Changes of one run are serialized across replicas. It returns fault.NotFound if
// there is no such run.
func (s store) changeWorkflow(ctx context.Context, in orgs.Space, id string, now time.Time, f func(*sql.Tx, *workflow) error) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		w := workflow{space: in}
		err := w.scan(t.QueryRowContext(ctx, `
			UPDATE platform_workflows SET updated_at = $4 WHERE id = $1 AND workspace_id = $2 AND space_user = $3
			RETURNING `+workflowColumns, id, in.ID(), in.Personal, sqldb.Micros(now)).Scan)
		if err != nil {
			return s.db.NotFound("run", err)
		}
		old := w
		if err := f(t, &w); err != nil || w == old {
			return err
		}
		_, err = t.ExecContext(ctx, `
			UPDATE platform_workflows SET status = $2, run_name = $3, session_id = $4, project_name = $5, user_name = $6, search = $7,
				completed_at = $8, heartbeat_at = $9, document = $10, launch = $11, metrics = $12 WHERE id = $1`,
			w.id, w.status, w.runName, w.sessionID, w.projectName, w.userName, w.searchableText(),
			sqldb.Micros(w.completed), sqldb.Micros(w.heartbeat), w.document, w.launch, w.metrics)
		return err
	})
}

// recordHeartbeat stores the time of a heartbeat; fault.NotFound if the user reports no such
// run.
func (s store) recordHeartbeat(ctx context.Context, in orgs.Space, id string, userID int64, now time.Time) error {
	done, err := s.db.Changed(s.db.ExecContext(ctx, `
		UPDATE platform_workflows SET heartbeat_at = $5 WHERE id = $1 AND workspace_id = $2 AND space_user = $3 AND user_id = $4`,
		id, in.ID(), in.Personal, userID, sqldb.Micros(now)))
	if err == nil && !done {
		return fault.NotFound.Newf("No such run")
	}
	return err
}

// workflows returns a page of runs, newest first, and their total number, which is 0 unless
// count is set. The search reads an index only; documents are read for the runs of the page.
func (s store) workflows(ctx context.Context, where filter, p sqldb.Page, count bool) ([]workflow, int, error) {
	const newestFirst = ` ORDER BY submitted_at DESC, id DESC`
	found := sqldb.Listing[any]{
		Read: where.query(`SELECT id FROM platform_workflows`, newestFirst, true),
		Scan: func(r *sql.Rows) (any, error) {
			var id string
			return &id, r.Scan(&id)
		},
	}
	if count {
		found.Count = where.query(`SELECT count(*) FROM platform_workflows`, ``, false)
	}
	ids, total, err := found.Page(ctx, s.db, p, where.args...)
	if err != nil || len(ids) == 0 {
		return nil, total, err
	}
	list, err := sqldb.Listing[workflow]{
		Read: `SELECT ` + listedColumns() + ` FROM platform_workflows WHERE id IN ` + sqldb.Placeholders(1, 1, len(ids)) + newestFirst,
		Scan: func(r *sql.Rows) (w workflow, err error) { return w, w.scan(r.Scan) },
	}.All(ctx, s.db, ids...)
	return list, total, err
}

// hasRunNamed reports whether a session has a run with a name.
func (s store) hasRunNamed(ctx context.Context, in orgs.Space, session, name string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM platform_workflows WHERE workspace_id = $1 AND space_user = $2 AND session_id = $3 AND run_name = $4`,
		in.ID(), in.Personal, session, name).Scan(&n)
	return n > 0, err
}

// deleteWorkflow deletes a run with its tasks if the run has ended or has sent no heartbeat
// since silentSince. It returns false if there is no such run.
func (s store) deleteWorkflow(ctx context.Context, in orgs.Space, id string, silentSince time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		DELETE FROM platform_workflows WHERE id = $1 AND workspace_id = $2 AND space_user = $3
		AND (status NOT IN ('SUBMITTED', 'RUNNING') OR heartbeat_at < $4)`,
		id, in.ID(), in.Personal, sqldb.Micros(silentSince)))
}

// counts returns the stored counts of runs by run id.
func (s store) counts(ctx context.Context, ids ...any) (map[string]string, error) {
	out := map[string]string{}
	if len(ids) == 0 {
		return out, nil
	}
	_, err := sqldb.Listing[struct{}]{
		Read: `SELECT workflow_id, counts FROM platform_progress WHERE workflow_id IN ` + sqldb.Placeholders(1, 1, len(ids)),
		Scan: func(r *sql.Rows) (none struct{}, err error) {
			var id, text string
			err = r.Scan(&id, &text)
			out[id] = text
			return none, err
		},
	}.All(ctx, s.db, ids...)
	return out, err
}
