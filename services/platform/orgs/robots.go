package orgs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
)

// A robot is an account without a person, which belongs to a workspace or to an organisation.
type robot struct {
	id, orgID, workspaceID int64 // workspaceID is 0 for a robot of an organisation
	name                   string
	userName               string // in the audit trail
	role, description      string
	createdBy              string
	created, used          time.Time // used may be zero: never
}

func (r robot) toProto() *platformv1.Robot {
	return &platformv1.Robot{
		Id: float64(r.id), Name: r.name, UserName: r.userName, WorkspaceId: api.IDValue(r.workspaceID), Role: r.role, Description: r.description, CreatedBy: r.createdBy,
		DateCreated: api.Timestamp(r.created), LastUsed: api.Timestamp(r.used),
	}
}

// parseRobotRole parses the role of a robot; the default is launch. Higher roles are invalid,
// because they only add calls that a robot's token may not make.
func parseRobotRole(name string) (Role, error) {
	if name == "" {
		return RoleLaunch, nil
	}
	r, err := parseRole(name)
	if err != nil || r > RoleLaunch {
		return NoRole, errRobotRole(err)
	}
	return r, nil
}

func errRobotRole(cause error) error {
	return fault.Invalid.New("role of a robot must be one of launch, connect, view", cause)
}

// ListRobots returns a page of the robots of an organisation, or of a workspace.
func (s *Service) ListRobots(ctx context.Context, req *platformv1.ListRobotsRequest) (*platformv1.ListRobotsResponse, error) {
	list, err := s.store.robots(ctx, req.GetOrgId(), req.GetWorkspaceId())
	if err != nil {
		return nil, fmt.Errorf("reading the robots of %d: %w", req.GetOrgId(), err)
	}
	if list, err = paging.Slice(list, req); err != nil {
		return nil, err
	}
	resp := &platformv1.ListRobotsResponse{}
	for _, r := range list {
		resp.Robots = append(resp.Robots, r.toProto())
	}
	return resp, nil
}

// CreateRobot creates a robot without a token. Its role is never above that of the caller, who is at
// least an admin of the workspace. It returns fault.Conflict if the owner has a robot with that name.
func (s *Service) CreateRobot(ctx context.Context, req *platformv1.CreateRobotRequest) (*platformv1.CreateRobotResponse, error) {
	r := robot{
		id: api.NewID(), orgID: req.GetOrgId(), workspaceID: req.GetWorkspaceId(), name: req.GetRobot().GetName(),
		description: strings.TrimSpace(req.GetRobot().GetDescription()), createdBy: PrincipalFrom(ctx).User.Name, created: s.deps.Now(),
	}
	if err := errors.Join(identity.CheckRobotName(r.name), checkRobotDescription(r.description)); err != nil {
		return nil, err
	}
	role, err := parseRobotRole(req.GetRobot().GetRole())
	if err != nil {
		return nil, err
	}
	r.role = role.String()
	r, created, err := s.store.insertRobot(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("writing the robot %s: %w", r.name, err)
	}
	if !created {
		return nil, api.NameTaken("a robot", r.name)
	}
	return &platformv1.CreateRobotResponse{Robot: r.toProto()}, nil
}

// DescribeRobot returns a robot, or fault.NotFound if the owner has no such robot.
func (s *Service) DescribeRobot(ctx context.Context, req *platformv1.DescribeRobotRequest) (*platformv1.DescribeRobotResponse, error) {
	r, err := s.store.robot(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("reading robot %d: %w", req.GetRobotId(), err)
	}
	return &platformv1.DescribeRobotResponse{Robot: r.toProto()}, nil
}

// UpdateRobot changes the fields that the request sets. A new role applies to the next call of each of
// the robot's tokens. UpdateRobot returns fault.NotFound if the owner has no such robot,
// fault.Denied if the call's token may not raise the role, and fault.Conflict if the robot was changed
// or deleted meanwhile.
func (s *Service) UpdateRobot(ctx context.Context, req *platformv1.UpdateRobotRequest) (*platformv1.UpdateRobotResponse, error) {
	old, err := s.store.robot(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("reading robot %d: %w", req.GetRobotId(), err)
	}
	r := old
	if err := r.apply(req.GetRobot()); err != nil {
		return nil, err
	}
	if r == old {
		return &platformv1.UpdateRobotResponse{Robot: r.toProto()}, nil
	}
	if err := checkRaise(ctx, old, r); err != nil {
		return nil, err
	}
	done, err := s.store.updateRobot(ctx, old, r)
	if err != nil {
		return nil, fmt.Errorf("writing robot %d: %w", r.id, err)
	}
	if !done {
		return nil, fault.Conflict.Newf("Another request has just changed or deleted this robot; try again").WithCode(fault.ObjectChanged)
	}
	s.deps.Notifier.Notify(ctx, caller.Change{UserID: r.id})
	return &platformv1.UpdateRobotResponse{Robot: r.toProto()}, nil
}

// checkRaise returns fault.Denied if a change raises the role of a robot and the call's token may not
// do so.
func checkRaise(ctx context.Context, old, r robot) error {
	before, err := parseRole(old.role)
	if err != nil {
		return fmt.Errorf("reading the role of robot %d: %w", r.id, err)
	}
	after, err := parseRole(r.role)
	if err != nil || after <= before {
		return err
	}
	return PrincipalFrom(ctx).Restriction.CheckRobotRole()
}

// apply changes the fields that a request sets.
func (r *robot) apply(change *platformv1.RobotChange) error {
	if change != nil && change.Role != nil {
		if change.GetRole() == "" {
			return errRobotRole(nil)
		}
		role, err := parseRobotRole(change.GetRole())
		if err != nil {
			return err
		}
		r.role = role.String()
	}
	if change != nil {
		api.SetTrimmed(&r.description, change.Description)
	}
	return checkRobotDescription(r.description)
}

func checkRobotDescription(text string) error { return api.CheckLength("description", text, 1000) }

// DeleteRobot deletes a robot with its tokens, with immediate effect. Records that it has
// created stay. It returns fault.NotFound if the owner has no such robot.
func (s *Service) DeleteRobot(ctx context.Context, req *platformv1.DeleteRobotRequest) (*platformv1.DeleteRobotResponse, error) {
	r, err := s.store.robot(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("reading robot %d: %w", req.GetRobotId(), err)
	}
	done, err := s.store.deleteRobot(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("deleting robot %d: %w", r.id, err)
	}
	if !done {
		return nil, fault.NotFound.Newf("No such robot")
	}
	s.deps.Notifier.Notify(ctx, caller.Change{UserID: r.id})
	return &platformv1.DeleteRobotResponse{}, nil
}

// robotColumns are the columns of platform_robots AS r, with the names of the owner.
const robotColumns = `r.id, r.org_id, coalesce(r.workspace_id, 0), r.name, r.role, r.description, r.created_by, r.created_at, o.name, coalesce(w.name, ''),
	(SELECT coalesce(max(t.used_at), 0) FROM platform_robot_tokens t WHERE t.robot_id = r.id)`

const robotTables = ` FROM platform_robots r JOIN platform_orgs o ON o.id = r.org_id LEFT JOIN platform_workspaces w ON w.id = r.workspace_id`

func (r *robot) scan(scan func(...any) error) error {
	var org, workspace string
	err := scan(&r.id, &r.orgID, &r.workspaceID, &r.name, &r.role, &r.description, &r.createdBy, sqldb.ScanTime(&r.created), &org, &workspace, sqldb.ScanTime(&r.used))
	r.userName = identity.RobotName(org, workspace, r.name)
	return err
}

// event returns the audit event for a change of a robot.
func (r robot) event(action string) audit.Event {
	return audit.Event{Action: action, OrgID: r.orgID, WorkspaceID: r.workspaceID, Subject: r.userName}
}

// deleteEvent returns the audit event for the deletion of a robot.
func (r robot) deleteEvent() audit.Event {
	e := r.event("robot.delete")
	e.Before = r.values()
	return e
}

// values returns a robot for the audit trail.
func (r robot) values() map[string]any {
	return map[string]any{"id": r.id, "role": r.role, "description": r.description}
}

// ofOwner is an SQL condition for the robots of the organisation $1 or, if $2 is not 0, of its
// workspace $2.
const ofOwner = ` WHERE r.org_id = $1 AND coalesce(r.workspace_id, 0) = $2`

func (s store) robots(ctx context.Context, orgID, workspaceID int64) ([]robot, error) {
	return sqldb.Listing[robot]{
		Read: `SELECT ` + robotColumns + robotTables + ofOwner + ` ORDER BY r.name LIMIT $3`,
		Scan: func(rows *sql.Rows) (r robot, err error) { return r, r.scan(rows.Scan) },
	}.All(ctx, s.db, orgID, workspaceID, limits.RobotsPerOwner)
}

// robot returns the robot that a request names, or fault.NotFound if the owner has no such robot.
func (s store) robot(ctx context.Context, req interface {
	GetOrgId() int64
	GetWorkspaceId() int64
	GetRobotId() int64
},
) (r robot, err error) {
	err = r.scan(s.db.QueryRowContext(ctx, `SELECT `+robotColumns+robotTables+ofOwner+` AND r.id = $3`, req.GetOrgId(), req.GetWorkspaceId(), req.GetRobotId()).Scan)
	return r, s.db.NotFound("robot", err)
}

// updateRobot changes the role and the description. It returns false if the robot is no longer old.
func (s store) updateRobot(ctx context.Context, old, r robot) (bool, error) {
	e := r.event("robot.update")
	e.Before, e.After = old.values(), r.values()
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `UPDATE platform_robots SET role = $4, description = $5 WHERE id = $1 AND role = $2 AND description = $3`,
			r.id, old.role, old.description, r.role, r.description))
	})
}

// insertRobot stores a robot, and returns it with its user name. It returns false if the owner
// has a robot with the name or was deleted meanwhile, and fault.Invalid if the owner has too
// many robots.
func (s store) insertRobot(ctx context.Context, r robot) (robot, bool, error) {
	var org, workspace string
	err := s.db.QueryRowContext(ctx, `SELECT o.name, coalesce((SELECT w.name FROM platform_workspaces w WHERE w.id = $2), '') FROM platform_orgs o WHERE o.id = $1`,
		r.orgID, r.workspaceID).Scan(&org, &workspace)
	if err != nil {
		return r, false, s.db.NotFound("organisation", err)
	}
	r.userName = identity.RobotName(org, workspace, r.name)
	e := r.event("robot.create")
	e.After = r.values()
	created, err := s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		// This serializes the creation of the robots of one organisation.
		exists, err := s.db.Changed(t.ExecContext(ctx, `UPDATE platform_orgs SET created_at = created_at WHERE id = $1`, r.orgID))
		if err != nil {
			return false, err
		}
		if !exists {
			return false, errNoOrg(nil)
		}
		var n int
		if err := t.QueryRowContext(ctx, `SELECT count(*) FROM platform_robots r`+ofOwner, r.orgID, r.workspaceID).Scan(&n); err != nil {
			return false, err
		}
		if err := api.Robots.Check(n); err != nil {
			return false, err
		}
		return s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_robots (id, org_id, workspace_id, name, role, created_by, created_at, description)
			SELECT $1, $2, nullif(CAST($3 AS bigint), 0), $4, $5, $6, $7, $8
			WHERE CAST($3 AS bigint) = 0 OR EXISTS (SELECT 1 FROM platform_workspaces WHERE id = $3 AND org_id = $2) ON CONFLICT DO NOTHING`,
			r.id, r.orgID, r.workspaceID, r.name, r.role, r.createdBy, sqldb.Micros(r.created), r.description))
	})
	return r, created, err
}

// deleteRobot returns false if the robot was deleted meanwhile.
func (s store) deleteRobot(ctx context.Context, r robot) (bool, error) {
	return s.audit.Change(ctx, r.deleteEvent(), func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_robots WHERE id = $1`, r.id))
	})
}

// changeWithRobots calls deletion, which deletes the owner with its robots and their tokens, and its
// invitations. If deletion returns true, changeWithRobots records the deletion of each of them, and
// then e.
func (s store) changeWithRobots(ctx context.Context, e audit.Event, owner int64, deletion func(*sql.Tx) (bool, error)) (bool, error) {
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		robots, err := s.lockedRobots(ctx, t, owner)
		if err != nil {
			return false, err
		}
		events, err := revokeInvitations(ctx, t, `org_id = $1 OR workspace_id = $1`, owner)
		if err != nil {
			return false, err
		}
		done, err := deletion(t)
		if err != nil || !done {
			return false, err
		}
		if err := s.audit.AppendAll(ctx, t, events); err != nil {
			return false, err
		}
		for _, r := range robots {
			if err := s.audit.Append(ctx, t, r.deleteEvent()); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// lockedRobots returns the robots of an owner that is to be deleted, and prevents the creation
// of others until the end of the transaction. Robots of workspaces are not included for an
// organisation, since an organisation with workspaces cannot be deleted.
func (s store) lockedRobots(ctx context.Context, t *sql.Tx, owner int64) (out []robot, err error) {
	_, err = t.ExecContext(ctx, `UPDATE platform_orgs SET created_at = created_at
		WHERE id = $1 OR id IN (SELECT org_id FROM platform_workspaces WHERE id = $1)`, owner)
	if err != nil {
		return nil, err
	}
	rows, err := t.QueryContext(ctx, `SELECT `+robotColumns+robotTables+` WHERE r.workspace_id = $1 OR r.org_id = $1 AND r.workspace_id IS NULL ORDER BY r.name`, owner)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r robot
		if err := r.scan(rows.Scan); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
