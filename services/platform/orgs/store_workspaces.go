package orgs

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"slipway.dev/services/internal/sqldb"
)

const (
	visibilityPrivate = "PRIVATE"
	visibilityShared  = "SHARED"
)

// Workspace is one of an organisation; the zero value is none.
type Workspace struct {
	ID, OrgID                               int64
	OrgName                                 string
	Name, FullName, Description, Visibility string
	created, updated                        time.Time
}

// standing is a user's roles around a workspace; "": none.
type standing struct{ participant, org string }

const workspaceColumns = `w.id, w.org_id, o.name, w.name, w.full_name, w.description, w.visibility, w.created_at, w.updated_at,
	COALESCE(p.role, ''), COALESCE(m.role, '')`

// workspaceTables joins a user's ($1) standing.
const workspaceTables = ` FROM platform_workspaces w JOIN platform_orgs o ON o.id = w.org_id
	LEFT JOIN platform_participants p ON p.workspace_id = w.id AND p.user_id = $1
	LEFT JOIN platform_members m ON m.org_id = w.org_id AND m.user_id = $1`

type placed struct {
	workspace Workspace
	in        standing
}

func (p *placed) scan(scan func(...any) error) error {
	w := &p.workspace
	return scan(&w.ID, &w.OrgID, &w.OrgName, &w.Name, &w.FullName, &w.Description, &w.Visibility,
		sqldb.Into(&w.created), sqldb.Into(&w.updated), &p.in.participant, &p.in.org)
}

// workspaceFor reads a workspace with a user's standing; fault.NotFound.
func (s store) workspaceFor(ctx context.Context, id, userID int64) (Workspace, standing, error) {
	var p placed
	err := p.scan(s.db.QueryRowContext(ctx, `SELECT `+workspaceColumns+workspaceTables+` WHERE w.id = $2`, userID, id).Scan)
	return p.workspace, p.in, s.db.NotFound("workspace", err)
}

// visible holds for workspaces that the user $1 may see.
const visible = ` (p.role IS NOT NULL OR m.role = 'owner' OR (m.role IS NOT NULL AND w.visibility = 'SHARED'))`

// workspacesOf lists what a user may see: of one organisation, or with 0 of all.
func (s store) workspacesOf(ctx context.Context, userID, orgID int64, p sqldb.Page) ([]placed, int, error) {
	const from = workspaceTables + ` WHERE (CAST($2 AS bigint) = 0 OR w.org_id = $2) AND w.name_key LIKE $3 ESCAPE '\' AND` + visible
	return sqldb.Listing[placed]{
		Count: `SELECT count(*)` + from,
		Read:  `SELECT ` + workspaceColumns + from + ` ORDER BY o.name_key, w.name_key LIMIT $4 OFFSET $5`,
		Scan:  func(r *sql.Rows) (w placed, err error) { return w, w.scan(r.Scan) },
	}.Page(ctx, s.db, p, userID, orgID, p.Like)
}

// insertWorkspace writes a workspace; false when the name is taken.
func (s store) insertWorkspace(ctx context.Context, w Workspace, now time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		INSERT INTO platform_workspaces (id, org_id, name, name_key, full_name, description, visibility, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) ON CONFLICT DO NOTHING`,
		w.ID, w.OrgID, w.Name, strings.ToLower(w.Name), w.FullName, w.Description, w.Visibility, sqldb.Micros(now)))
}

func (s store) hasWorkspaceNamed(ctx context.Context, orgID int64, name string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_workspaces WHERE org_id = $1 AND name_key = $2`, orgID, strings.ToLower(name)).Scan(&n)
	return n > 0, err
}

// updateWorkspace returns false when another has the name.
func (s store) updateWorkspace(ctx context.Context, w Workspace, now time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		UPDATE platform_workspaces SET name = $3, name_key = $4, full_name = $5, description = $6, visibility = $7, updated_at = $8
		WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM platform_workspaces WHERE org_id = $2 AND name_key = $4 AND id <> $1)`,
		w.ID, w.OrgID, w.Name, strings.ToLower(w.Name), w.FullName, w.Description, w.Visibility, sqldb.Micros(now)))
}

// deleteWorkspace returns false when something is kept in it: a row of a table with
// its workspace_id.
func (s store) deleteWorkspace(ctx context.Context, id int64, kept []string) (bool, error) {
	q := `DELETE FROM platform_workspaces WHERE id = $1`
	for _, table := range kept {
		q += ` AND NOT EXISTS (SELECT 1 FROM ` + table + ` WHERE workspace_id = $1)`
	}
	return s.db.Changed(s.db.ExecContext(ctx, q, id))
}
