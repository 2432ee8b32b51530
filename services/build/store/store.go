// Package store owns the tables build_*: their rows, queries, and changes of state. All
// changes are conditional updates, so that any replica may make them. The package makes no
// decisions and only accesses the database.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// Store gives access to the tables build_*. Its errors are database errors, except for
// fault.NotFound; see Fault. Safe for concurrent use.
type Store struct{ db *sqldb.DB }

// New returns the tables in a database that sqldb.DB.Migrate has migrated.
func New(db *sqldb.DB) Store { return Store{db} }

// Fault converts a database error for callers.
func (s Store) Fault(doing string, err error) error { return s.db.Fault(doing, err) }

// Insert stores a new build, or one that has already ended. It returns false if its id is
// taken, or if there is a pending build of the same image.
func (s Store) Insert(ctx context.Context, r *Record) (bool, error) {
	request, err := proto.Marshal(r.Request)
	if err != nil {
		return false, err
	}
	lock, err := sqldb.Pack(r.Lock)
	if err != nil {
		return false, err
	}
	req := r.Request
	id, state := req.GetIdentity(), "PENDING"
	if !r.IsPending() {
		state = "COMPLETED"
	}
	res, err := s.db.PreparedExec(ctx, `
		INSERT INTO build_builds (id, content_id, number, content_digest, target, scope, state, engine, architecture, owner,
			endpoint, user_id, workspace_id, email, client_ip, request, trace_parent, time_limit,
			created_at, published_at, publications, started_at, completed_at, delivery, worker, ticket,
			succeeded, reason, message, digest, counted, conda_lock, solve_at, robot_org_id, restriction, organization_id, lock_digest)
		VALUES ($1, $2, $3, $4, $5, $6, $20, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
			$18, 0, 0, 0, $21, 0, '', '', $22, '', '', $23, $19, $24, $25, $26, $27, $28, $29)
		ON CONFLICT DO NOTHING`,
		r.ID, req.GetContentId(), r.Number, req.GetContentDigest(), Image(req.GetTarget()), req.GetScope(),
		req.GetRecipe().GetEngine(), engine.KindOf(req.GetRecipe()).Architecture, r.Owner,
		id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId(), id.GetEmail(), req.GetClientIp(),
		request, r.TraceParent, r.TimeLimit.Microseconds(), sqldb.Micros(r.Created), r.Counted,
		state, sqldb.Micros(r.Completed), r.Succeeded, r.Digest, lock, r.solveAt(), id.GetRobotOrgId(), caller.Of(id).Restriction(), caller.Of(id).OrganizationID,
		environmentLock(req))
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// columns are the columns that scan reads, in its order.
const columns = `id, number, request, owner, trace_parent, time_limit, created_at, published_at, started_at, completed_at,
	publications, delivery, worker, succeeded, reason, message, digest, environment, lock_digest`

func scan(row interface{ Scan(dest ...any) error }) (Record, error) {
	var r Record
	var request []byte
	var limit, created, published, started, completed int64
	err := row.Scan(&r.ID, &r.Number, &request, &r.Owner, &r.TraceParent, &limit, &created, &published, &started, &completed,
		&r.Publications, &r.Delivery, &r.Worker, &r.Succeeded, &r.Reason, &r.Message, &r.Digest, &r.Environment, &r.LockDigest)
	if errors.Is(err, sql.ErrNoRows) {
		return r, UnknownBuild(err)
	}
	if err != nil {
		return r, err
	}
	r.TimeLimit = time.Duration(limit) * time.Microsecond
	r.Created, r.Published = sqldb.Time(created), sqldb.Time(published)
	r.Started, r.Completed = sqldb.Time(started), sqldb.Time(completed)
	r.Request = &buildv1.SubmitBuildRequest{}
	if err := proto.Unmarshal(request, r.Request); err != nil {
		return r, fmt.Errorf("reading the stored build %s: %w", r.ID, err)
	}
	return r, nil
}

// UnknownBuild returns the fault for an unknown id.
func UnknownBuild(cause error) error { return fault.NotFound.New("There is no such build", cause) }

// Get returns a build, or fault.NotFound.
func (s Store) Get(ctx context.Context, id string) (Record, error) { return s.one(ctx, `id = $1`, id) }

// one returns the first build that matches a condition, or fault.NotFound.
func (s Store) one(ctx context.Context, where string, args ...any) (Record, error) {
	return scan(s.db.PreparedRow(ctx, `SELECT `+columns+` FROM build_builds WHERE `+where, args...))
}

// list returns the builds that match a condition.
func (s Store) list(ctx context.Context, where string, args ...any) ([]Record, error) {
	rows, err := s.db.PreparedQuery(ctx, `SELECT `+columns+` FROM build_builds WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Record
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// count counts the builds that match a condition.
func (s Store) count(ctx context.Context, where string, args ...any) (n int32, err error) {
	err = s.db.PreparedRow(ctx, `SELECT COUNT(*) FROM build_builds WHERE `+where, args...).Scan(&n)
	return n, err
}

// change runs an update and reports whether it changed a row.
func (s Store) change(ctx context.Context, query string, args ...any) (bool, error) {
	res, err := s.db.PreparedExec(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
