package identity

import (
	"context"
	"database/sql"
	"strconv"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
)

// A robot is a robot account with its owner.
type robot struct {
	owner RobotOwner
	user  User // has only an id and a name
}

const robotColumns = `r.id, r.org_id, coalesce(r.workspace_id, 0), r.name, o.name, coalesce(w.name, '')`

// robotOwners joins platform_robots AS r, which package orgs writes, with the names of their owners.
const robotOwners = ` JOIN platform_orgs o ON o.id = r.org_id LEFT JOIN platform_workspaces w ON w.id = r.workspace_id`

// scan reads more columns, followed by robotColumns.
func (r *robot) scan(scan func(...any) error, more ...any) error {
	var name, org, workspace string
	err := scan(append(more, &r.user.ID, &r.owner.Org, &r.owner.Workspace, &name, &org, &workspace)...)
	r.user.Name = RobotName(org, workspace, name)
	return err
}

// robot returns the robot of an owner with an id, or fault.NotFound.
func (s store) robot(ctx context.Context, owner RobotOwner, id int64) (r robot, err error) {
	err = r.scan(s.db.QueryRowContext(ctx, `
		SELECT `+robotColumns+` FROM platform_robots r`+robotOwners+`
		WHERE r.id = $1 AND r.org_id = $2 AND coalesce(r.workspace_id, 0) = $3`, id, owner.Org, owner.Workspace).Scan)
	return r, s.db.NotFound("robot", err)
}

const robotRecordColumns = `t.id, t.name, t.created_at, t.expires_at, t.used_at, t.used_from, t.scopes, t.repositories, coalesce(r.workspace_id, 0)`

const robotTokenQuery = `SELECT ` + robotRecordColumns + `, t.secret_hash, ` + robotColumns + `
	FROM platform_robot_tokens t JOIN platform_robots r ON r.id = t.robot_id` + robotOwners + ` WHERE t.id = $1`

// robotToken returns the token of a robot with an id, or fault.NotFound.
func (s store) robotToken(ctx context.Context, id int64) (t tokenRecord, err error) {
	t.robot = &robot{}
	err = t.scan(func(into ...any) error {
		return t.robot.scan(s.db.PreparedRow(ctx, robotTokenQuery, id).Scan, into...)
	}, &t.restrictedHash)
	t.user = t.robot.user
	return t, s.db.NotFound("token", err)
}

func (s store) robotTokens(ctx context.Context, of robot) ([]tokenRecord, error) {
	return sqldb.Listing[tokenRecord]{
		Read: `SELECT ` + robotRecordColumns + ` FROM platform_robot_tokens t JOIN platform_robots r ON r.id = t.robot_id WHERE r.id = $1 ORDER BY t.name LIMIT $2`,
		Scan: func(rows *sql.Rows) (r tokenRecord, err error) { return r, r.scan(rows.Scan) },
	}.All(ctx, s.db, of.user.ID, limits.TokensPerRobot)
}

// tokenEvent returns the audit event for a token of a robot.
func (r robot) tokenEvent(action string, id int64) audit.Event {
	return audit.Event{Action: action, OrgID: r.owner.Org, WorkspaceID: r.owner.Workspace, Subject: strconv.FormatInt(id, 10)}
}

// insertRobotToken stores a new token of a robot. It returns false if the robot has a token
// with that name, fault.Invalid if the robot has too many tokens, and fault.NotFound if the
// robot was deleted.
func (s store) insertRobotToken(ctx context.Context, t token, rec tokenRecord) (bool, error) {
	e := rec.robot.tokenEvent("robot-token.create", t.id)
	e.After = map[string]any{"robot": rec.user.Name, "name": rec.name, "expires": expiryText(rec.expires), "scopes": names(rec.restriction.Scopes), "repositories": names(rec.restriction.Repositories)}
	return s.audit.Change(ctx, e, func(tx *sql.Tx) (bool, error) {
		// This serializes the creation of one robot's tokens.
		exists, err := s.db.Changed(tx.ExecContext(ctx, `UPDATE platform_robots SET created_at = created_at WHERE id = $1`, rec.user.ID))
		if err != nil {
			return false, err
		}
		if !exists {
			return false, fault.NotFound.Newf("No such robot")
		}
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM platform_robot_tokens WHERE robot_id = $1`, rec.user.ID).Scan(&n); err != nil {
			return false, err
		}
		if err := api.RobotTokens.Check(n); err != nil {
			return false, err
		}
		return s.db.Changed(tx.ExecContext(ctx, `
			INSERT INTO platform_robot_tokens (id, robot_id, name, secret_hash, scopes, repositories, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			t.id, rec.user.ID, rec.name, t.hash(), stored(rec.restriction.Scopes), stored(rec.restriction.Repositories), sqldb.Micros(rec.created), sqldb.Micros(rec.expires)))
	})
}

// deleteRobotToken returns false if the robot has no such token.
func (s store) deleteRobotToken(ctx context.Context, of robot, id int64) (bool, error) {
	e := of.tokenEvent("robot-token.delete", id)
	e.Before = map[string]any{"robot": of.user.Name}
	return s.audit.Change(ctx, e, func(tx *sql.Tx) (bool, error) {
		return s.db.Changed(tx.ExecContext(ctx, `DELETE FROM platform_robot_tokens WHERE id = $1 AND robot_id = $2`, id, of.user.ID))
	})
}
