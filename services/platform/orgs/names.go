package orgs

import (
	"context"
	"database/sql"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/sqldb"
)

// WorkspaceNames returns the names and organisations of the workspaces with these ids. It omits
// those that do not exist.
func (s *Service) WorkspaceNames(ctx context.Context, ids []int64) (map[int64]*platformv1.WorkspaceName, error) {
	out := map[int64]*platformv1.WorkspaceName{}
	if len(ids) == 0 {
		return out, nil
	}
	in, args := sqldb.In(ids)
	list, err := sqldb.Listing[Workspace]{
		Read: `SELECT id, org_id, name FROM platform_workspaces WHERE id IN ` + in,
		Scan: func(r *sql.Rows) (w Workspace, err error) { return w, r.Scan(&w.ID, &w.OrgID, &w.Name) },
	}.All(ctx, s.store.db, args...)
	for _, w := range list {
		out[w.ID] = &platformv1.WorkspaceName{Name: w.Name, OrgId: w.OrgID}
	}
	return out, err
}

// OrgNames returns the names of the organisations with these ids. It omits those that do not exist.
func (s *Service) OrgNames(ctx context.Context, ids []int64) (map[int64]string, error) {
	out := map[int64]string{}
	if len(ids) == 0 {
		return out, nil
	}
	in, args := sqldb.In(ids)
	list, err := sqldb.Listing[org]{
		Read: `SELECT id, name FROM platform_orgs WHERE id IN ` + in,
		Scan: func(r *sql.Rows) (o org, err error) { return o, r.Scan(&o.ID, &o.Name) },
	}.All(ctx, s.store.db, args...)
	for _, o := range list {
		out[o.ID] = o.Name
	}
	return out, err
}

// OrgWorkspaces returns the ids of the workspaces of an organisation.
func (s *Service) OrgWorkspaces(ctx context.Context, orgID int64) ([]int64, error) {
	ids, err := sqldb.Listing[int64]{
		Read: `SELECT id FROM platform_workspaces WHERE org_id = $1 ORDER BY id`,
		Scan: func(r *sql.Rows) (id int64, err error) { return id, r.Scan(&id) },
	}.All(ctx, s.store.db, orgID)
	if err != nil {
		return nil, fmt.Errorf("reading the workspaces of organisation %d: %w", orgID, err)
	}
	return ids, nil
}
