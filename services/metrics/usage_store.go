package metrics

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// A usageKey identifies the row of metrics_usage that an event is added to.
type usageKey struct {
	day             string
	user, workspace int64
	metric          metric
}

func (k usageKey) compare(o usageKey) int {
	return cmp.Or(cmp.Compare(k.day, o.day), cmp.Compare(k.user, o.user), cmp.Compare(k.workspace, o.workspace), cmp.Compare(k.metric, o.metric))
}

// A usageAmount is what is added to a row.
type usageAmount struct{ robotOrg, amount int64 }

// usageWrites is the maximum number of rows that one statement changes.
const usageWrites = 100

// onUsage adds to rows that exist.
const onUsage = ` ON CONFLICT (day, user_id, workspace_id, metric) DO UPDATE SET amount = metrics_usage.amount + excluded.amount`

// addUsage adds amounts within a transaction.
func addUsage(ctx context.Context, tx *sql.Tx, amounts map[usageKey]usageAmount) error {
	// A fixed order prevents deadlocks between transactions.
	for keys := range slices.Chunk(slices.SortedFunc(maps.Keys(amounts), usageKey.compare), usageWrites) {
		var args []any
		for _, k := range keys {
			args = append(args, k.day, k.user, k.workspace, string(k.metric), amounts[k].robotOrg, amounts[k].amount)
		}
		insert := `INSERT INTO metrics_usage (day, user_id, workspace_id, metric, robot_org_id, amount) VALUES ` + sqldb.Placeholders(1, len(keys), 6) + onUsage //nolint:gosec // rows of placeholders
		if _, err := tx.ExecContext(ctx, insert, args...); err != nil {
			return fmt.Errorf("adding usage of %s and later: %w", keys[0].day, err)
		}
	}
	return nil
}

// usage returns the usage that a query selects, summed up by the columns that the rows are about,
// and for organisations by workspace and organisation of a robot. It returns at most one group more
// than limits.UsageGroups.
func (s store) usage(ctx context.Context, q usageQuery) ([]usageGroup, error) {
	columns, groups := []string{"''", "CAST(0 AS bigint)", "CAST(0 AS bigint)", "CAST(0 AS bigint)"}, []string{}
	for i, c := range []struct {
		name string
		of   []string
	}{
		{"day", []string{byDay}}, {"user_id", []string{byUser}},
		{"workspace_id", []string{byWorkspace, byOrganization}}, {"robot_org_id", []string{byWorkspace, byOrganization}},
	} {
		if q.isBy(c.of...) {
			columns[i] = c.name
			groups = append(groups, c.name)
		}
	}
	for _, m := range []metric{builds, buildSeconds, pulls, filesystem} {
		columns = append(columns, `CAST(SUM(CASE WHEN metric = '`+string(m)+`' THEN amount ELSE 0 END) AS bigint)`)
	}
	where, args := q.condition()
	return sqldb.Listing[usageGroup]{
		Read: `SELECT ` + strings.Join(columns, ", ") + ` FROM metrics_usage WHERE ` + where + ` GROUP BY ` + strings.Join(groups, ", ") +
			fmt.Sprintf(` LIMIT %d`, limits.UsageGroups+1),
		Scan: func(r *sql.Rows) (g usageGroup, err error) {
			return g, r.Scan(&g.day, &g.user, &g.workspace, &g.org, &g.builds, &g.seconds, &g.pulls, &g.filesystemPulls)
		},
	}.All(ctx, s.db, args...)
}

// condition returns the SQL condition of a query with its arguments.
func (q usageQuery) condition() (string, []any) {
	args := []any{q.from, q.to}
	where := []string{`day >= $1 AND day <= $2`}
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	if id := q.scope.GetUserId(); id != 0 {
		where = append(where, `user_id = `+arg(id))
	}
	if id := q.scope.GetWorkspaceId(); id != 0 {
		where = append(where, `workspace_id = `+arg(id))
	}
	if id := q.scope.GetOrgId(); id != 0 {
		of := `robot_org_id = ` + arg(id)
		if ids := q.scope.GetOrgWorkspaceIds(); len(ids) > 0 {
			of += ` OR workspace_id IN ` + sqldb.Placeholders(len(args)+1, 1, len(ids))
			for _, w := range ids {
				args = append(args, w)
			}
		}
		where = append(where, `(`+of+`)`)
	}
	return strings.Join(where, " AND "), args
}

// deleteUsage deletes the usage of days before a time.
func (s store) deleteUsage(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM metrics_usage WHERE day < $1`, before.UTC().Format(time.DateOnly))
	return err
}
