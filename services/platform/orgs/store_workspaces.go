package orgs

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/audit"
)

const (
	visibilityPrivate = "PRIVATE"
	visibilityShared  = "SHARED"
)

// A Workspace belongs to an organisation. The zero value represents no workspace.
type Workspace struct {
	ID, OrgID                               int64
	OrgName                                 string
	Name, FullName, Description, Visibility string
	created, updated                        time.Time
}

// userRoles are a user's roles in a workspace and in its organisation; "" means none. The role
// of a robot is in participant.
type userRoles struct{ participant, org string }

const workspaceColumns = `w.id, w.org_id, o.name, w.name, w.full_name, w.description, w.visibility, w.created_at, w.updated_at,
	COALESCE(p.role, r.role, ''), COALESCE(m.role, '')`

// workspaceTables joins workspaces with the roles of the user or the robot $1.
const workspaceTables = ` FROM platform_workspaces w JOIN platform_orgs o ON o.id = w.org_id
	LEFT JOIN platform_participants p ON p.workspace_id = w.id AND p.user_id = $1
	LEFT JOIN platform_members m ON m.org_id = w.org_id AND m.user_id = $1
	LEFT JOIN platform_robots r ON r.id = $1 AND r.org_id = w.org_id AND (r.workspace_id IS NULL OR r.workspace_id = w.id)`

type workspaceWithRoles struct {
	workspace Workspace
	roles     userRoles
}

func (p *workspaceWithRoles) scan(scan func(...any) error) error {
	w := &p.workspace
	return scan(&w.ID, &w.OrgID, &w.OrgName, &w.Name, &w.FullName, &w.Description, &w.Visibility,
		sqldb.ScanTime(&w.created), sqldb.ScanTime(&w.updated), &p.roles.participant, &p.roles.org)
}

// workspaceFor returns a workspace and a user's roles; fault.NotFound if it does not exist.
func (s store) workspaceFor(ctx context.Context, id, userID int64) (Workspace, userRoles, error) {
	var p workspaceWithRoles
	err := p.scan(s.db.QueryRowContext(ctx, `SELECT `+workspaceColumns+workspaceTables+` WHERE w.id = $2`, userID, id).Scan)
	return p.workspace, p.roles, s.db.NotFound("workspace", err)
}

// visibleWorkspaces is an SQL condition for the workspaces that the user or the robot $1 may see.
const visibleWorkspaces = ` (p.role IS NOT NULL OR r.role IS NOT NULL OR m.role = 'owner' OR (m.role IS NOT NULL AND w.visibility = 'SHARED'))`

// workspacesOf returns a page of the workspaces that a user may see and their total number. An
// orgID of 0 includes all organisations.
func (s store) workspacesOf(ctx context.Context, userID, orgID int64, p sqldb.Page) ([]workspaceWithRoles, int, error) {
	const from = workspaceTables + ` WHERE (CAST($2 AS bigint) = 0 OR w.org_id = $2) AND w.name_key LIKE $3 ESCAPE '\' AND` + visibleWorkspaces
	return sqldb.Listing[workspaceWithRoles]{
		Count: `SELECT count(*)` + from,
		Read:  `SELECT ` + workspaceColumns + from + ` ORDER BY o.name_key, w.name_key LIMIT $4 OFFSET $5`,
		Scan:  func(r *sql.Rows) (w workspaceWithRoles, err error) { return w, w.scan(r.Scan) },
	}.Page(ctx, s.db, p, userID, orgID, p.Like)
}

// insertWorkspace returns false if the name is taken.
func (s store) insertWorkspace(ctx context.Context, w Workspace, now time.Time) (bool, error) {
	e := audit.Event{Action: "workspace.create", OrgID: w.OrgID, WorkspaceID: w.ID, Subject: w.Name, After: w.values()}
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_workspaces (id, org_id, name, name_key, full_name, description, visibility, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) ON CONFLICT DO NOTHING`,
			w.ID, w.OrgID, w.Name, strings.ToLower(w.Name), w.FullName, w.Description, w.Visibility, sqldb.Micros(now)))
	})
}

func (s store) hasWorkspaceNamed(ctx context.Context, orgID int64, name string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM platform_workspaces WHERE org_id = $1 AND name_key = $2`, orgID, strings.ToLower(name)).Scan(&n)
	return n > 0, err
}

// updateWorkspace returns false if another workspace of the organisation has the name.
func (s store) updateWorkspace(ctx context.Context, old, w Workspace, now time.Time) (bool, error) {
	e := audit.Event{Action: "workspace.update", OrgID: w.OrgID, WorkspaceID: w.ID, Subject: w.Name, Before: old.values(), After: w.values()}
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `
			UPDATE platform_workspaces SET name = $3, name_key = $4, full_name = $5, description = $6, visibility = $7, updated_at = $8
			WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM platform_workspaces WHERE org_id = $2 AND name_key = $4 AND id <> $1)`,
			w.ID, w.OrgID, w.Name, strings.ToLower(w.Name), w.FullName, w.Description, w.Visibility, sqldb.Micros(now)))
	})
}

// values returns a workspace for the audit trail.
func (w Workspace) values() map[string]any {
	return map[string]any{"name": w.Name, "fullName": w.FullName, "description": w.Description, "visibility": w.Visibility}
}

// deleteWorkspace deletes a workspace with its robots. It returns false if one of the tables has a
// row with the workspace's id.
func (s store) deleteWorkspace(ctx context.Context, id int64, tables []string) (bool, error) {
	q := `DELETE FROM platform_workspaces WHERE id = $1`
	for _, table := range tables {
		q += ` AND NOT EXISTS (SELECT 1 FROM ` + table + ` WHERE workspace_id = $1)`
	}
	e := audit.Event{Action: "workspace.delete", WorkspaceID: id, Subject: strconv.FormatInt(id, 10)}
	return s.changeWithRobots(ctx, e, id, func(t *sql.Tx) (bool, error) { return s.db.Changed(t.ExecContext(ctx, q, id)) })
}
