package quota

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
)

// store accesses platform_limits.
type store struct {
	db    *sqldb.DB
	audit audit.Log
}

const (
	limitColumns = `l.subject, l.kind, l.value, l.updated_at, coalesce(u.user_name, p.name || '/' || w.name, o.name)`

	limitTables = ` FROM platform_limits l LEFT JOIN platform_users u ON u.id = l.user_id LEFT JOIN platform_orgs o ON o.id = l.org_id
		LEFT JOIN platform_workspaces w ON w.id = l.workspace_id LEFT JOIN platform_orgs p ON p.id = w.org_id`

	// listed is a condition for the subjects that match the pattern $1 and the names that match $2.
	listed = ` WHERE l.subject LIKE $1 AND lower(coalesce(u.user_name, p.name || '/' || w.name, o.name)) LIKE $2 ESCAPE '\'`
)

func (l *limit) scan(scan func(...any) error) error {
	var subject string
	if err := scan(&subject, &l.kind, &l.value, sqldb.ScanTime(&l.updated), &l.name); err != nil {
		return err
	}
	of, id, _ := strings.Cut(subject, "/")
	n, err := strconv.ParseInt(id, 10, 64)
	l.subject = ratelimit.Subject{Of: ratelimit.Category(of), ID: n}
	if err != nil {
		return fmt.Errorf("the subject %q of a limit: %w", subject, err)
	}
	return nil
}

func scanLimit(rows *sql.Rows) (l limit, err error) { return l, l.scan(rows.Scan) }

// key returns the value of the column subject.
func key(s ratelimit.Subject) string { return string(s.Of) + "/" + strconv.FormatInt(s.ID, 10) }

// limits returns a page of the limits of a category, or of all if of is "", or of one subject if id
// is not 0.
func (s store) limits(ctx context.Context, of ratelimit.Category, id int64, p sqldb.Page) ([]limit, int, error) {
	subjects := "%"
	switch {
	case id != 0:
		subjects = key(ratelimit.Subject{Of: of, ID: id})
	case of != "":
		subjects = string(of) + "/%"
	}
	return sqldb.Listing[limit]{
		Count: `SELECT count(*)` + limitTables + listed,
		Read:  `SELECT ` + limitColumns + limitTables + listed + ` ORDER BY 5, l.subject, l.kind LIMIT $3 OFFSET $4`,
		Scan:  scanLimit,
	}.Page(ctx, s.db, p, subjects, p.Like)
}

// all returns all limits.
func (s store) all(ctx context.Context) ([]limit, error) {
	return sqldb.Listing[limit]{
		Read: `SELECT ` + limitColumns + limitTables + ` LIMIT $1`,
		Scan: scanLimit,
	}.All(ctx, s.db, limits.OwnLimits)
}

// limit returns a limit, or fault.NotFound.
func (s store) limit(ctx context.Context, of ratelimit.Subject, k ratelimit.Kind) (l limit, err error) {
	err = l.scan(s.db.QueryRowContext(ctx, `SELECT `+limitColumns+limitTables+` WHERE l.subject = $1 AND l.kind = $2`, key(of), k).Scan)
	return l, s.db.NotFound("limit", err)
}

// A table is where the subjects of a category are stored.
type table struct {
	name   string
	column string // of platform_limits
	org    string // an expression for the organisation of a subject; 0 for none
	noun   string
}

func tableOf(c ratelimit.Category) table {
	switch c {
	case ratelimit.Organization:
		return table{"platform_orgs", "org_id", "id", "organisation"}
	case ratelimit.Workspace:
		return table{"platform_workspaces", "workspace_id", "org_id", "workspace"}
	default:
		return table{"platform_users", "user_id", "0", "user"}
	}
}

// event returns the audit event for a change of a limit, or fault.NotFound if its subject does not
// exist.
func (s store) event(ctx context.Context, l limit, action string) (audit.Event, error) {
	e, t := audit.Event{Action: action, Subject: key(l.subject) + "/" + string(l.kind)}, tableOf(l.subject.Of)
	if l.subject.Of == ratelimit.Workspace {
		e.WorkspaceID = l.subject.ID
	}
	err := s.db.QueryRowContext(ctx, `SELECT `+t.org+` FROM `+t.name+` WHERE id = $1`, l.subject.ID).Scan(&e.OrgID)
	if errors.Is(err, sql.ErrNoRows) {
		return e, fault.NotFound.Newf("There is no %s with the id %d", t.noun, l.subject.ID)
	}
	return e, s.db.Wrap(err)
}

// values returns the values of an audit event; nil for a value of "".
func values(value string) any {
	if value == "" {
		return nil
	}
	return map[string]any{"value": value}
}

// set stores a limit. It returns false if the limit has that value already, and fault.NotFound if
// its subject does not exist.
func (s store) set(ctx context.Context, l limit) (bool, error) {
	old, err := s.limit(ctx, l.subject, l.kind)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return false, err
	}
	if old.value == l.value {
		return false, nil
	}
	e, err := s.event(ctx, l, "limit.set")
	if err != nil {
		return false, err
	}
	e.Before, e.After = values(old.value), values(l.value)
	stored, err := s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		if old.value != "" {
			return s.db.Changed(t.ExecContext(ctx, `UPDATE platform_limits SET value = $3, updated_at = $4 WHERE subject = $1 AND kind = $2 AND value = $5`,
				key(l.subject), l.kind, l.value, sqldb.Micros(l.updated), old.value))
		}
		var n int
		if err := t.QueryRowContext(ctx, `SELECT count(*) FROM platform_limits`).Scan(&n); err != nil {
			return false, err
		}
		if err := api.Limits.Check(n); err != nil {
			return false, err
		}
		return s.db.Changed(t.ExecContext(ctx, `INSERT INTO platform_limits (subject, kind, value, `+tableOf(l.subject.Of).column+`, updated_at)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`, key(l.subject), l.kind, l.value, l.subject.ID, sqldb.Micros(l.updated)))
	})
	if err == nil && !stored {
		err = errChanged()
	}
	return stored, err
}

// delete deletes a limit. It returns false if it was changed or deleted meanwhile.
func (s store) delete(ctx context.Context, l limit) (bool, error) {
	e, err := s.event(ctx, l, "limit.delete")
	if err != nil {
		return false, err
	}
	e.Before = values(l.value)
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_limits WHERE subject = $1 AND kind = $2 AND value = $3`, key(l.subject), l.kind, l.value))
	})
}
