package build

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// store is the tables build_*.
type store struct{ db *sqldb.DB }

// record is a row of build_builds.
type record struct {
	id      string
	number  int64
	request *buildv1.SubmitBuildRequest
	// owner is whose turn the build takes.
	owner       string
	traceParent string
	timeLimit   time.Duration
	// Times are zero while it has not come to that.
	created, published, started, completed time.Time
	publications                           int64
	delivery                               int64
	succeeded                              bool
	reason, message, digest                string
	// counted is 0 for an admission, which is to be counted, or neverCounted. It is
	// written once and not read here.
	counted int64
	// lock is written once and not read here; nil is none.
	lock *condav1.SolvePackagesResponse
}

// maxNumber is the largest number that a build's id may have.
const maxNumber = 1 << 40

// renumber gives a build that is not written yet the id with a number.
func (r *record) renumber(n int64) {
	r.id, r.number = r.request.GetContentId()+"_"+strconv.FormatInt(n, 10), n
}

func (r record) isPending() bool { return r.completed.IsZero() }

// deadline is when the build has to be over; zero while no worker has it.
func (r record) deadline() time.Time {
	if r.started.IsZero() {
		return time.Time{}
	}
	return r.started.Add(r.timeLimit)
}

// image is a target in one string.
func image(t *buildv1.Target) string {
	return t.GetRegistry() + "/" + t.GetRepository() + ":" + t.GetTag()
}

// nameOf is the name of what a build makes, as it is pulled.
func nameOf(req *buildv1.SubmitBuildRequest) string {
	if req.GetRecipe().GetFormat() == "sif" {
		return "oras://" + image(req.GetTarget())
	}
	return image(req.GetTarget())
}

// insert writes a new build, one that has ended where it is completed. It answers
// false when its id is taken, or one that is pending makes the same image.
func (s store) insert(ctx context.Context, r *record) (bool, error) {
	request, err := proto.Marshal(r.request)
	if err != nil {
		return false, err
	}
	lock, err := sqldb.Pack(r.lock)
	if err != nil {
		return false, err
	}
	req := r.request
	id, state := req.GetIdentity(), "PENDING"
	if !r.isPending() {
		state = "COMPLETED"
	}
	res, err := s.db.ExecContext(ctx, `
		INSERT INTO build_builds (id, content_id, number, content_digest, target, scope, state, engine, architecture, owner,
			endpoint, user_id, workspace_id, email, client_ip, request, trace_parent, time_limit,
			created_at, published_at, publications, started_at, completed_at, delivery, worker, ticket,
			succeeded, reason, message, digest, counted, conda_lock)
		VALUES ($1, $2, $3, $4, $5, $6, $20, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
			$18, 0, 0, 0, $21, 0, '', '', $22, '', '', $23, $19, $24)
		ON CONFLICT DO NOTHING`,
		r.id, req.GetContentId(), r.number, req.GetContentDigest(), image(req.GetTarget()), req.GetScope(),
		req.GetRecipe().GetEngine(), architecture(req.GetRecipe()), r.owner,
		id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId(), id.GetEmail(), req.GetClientIp(),
		request, r.traceParent, r.timeLimit.Microseconds(), sqldb.Micros(r.created), r.counted,
		state, sqldb.Micros(r.completed), r.succeeded, r.digest, lock)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// columns are what scan reads, in its order.
const columns = `id, number, request, owner, trace_parent, time_limit, created_at, published_at, started_at, completed_at,
	publications, delivery, succeeded, reason, message, digest`

func scan(row interface{ Scan(dest ...any) error }) (record, error) {
	var r record
	var request []byte
	var limit, created, published, started, completed int64
	err := row.Scan(&r.id, &r.number, &request, &r.owner, &r.traceParent, &limit, &created, &published, &started, &completed,
		&r.publications, &r.delivery, &r.succeeded, &r.reason, &r.message, &r.digest)
	if errors.Is(err, sql.ErrNoRows) {
		return r, unknownBuild(err)
	}
	if err != nil {
		return r, err
	}
	r.timeLimit = time.Duration(limit) * time.Microsecond
	r.created, r.published = sqldb.Time(created), sqldb.Time(published)
	r.started, r.completed = sqldb.Time(started), sqldb.Time(completed)
	r.request = &buildv1.SubmitBuildRequest{}
	if err := proto.Unmarshal(request, r.request); err != nil {
		return r, fmt.Errorf("reading the stored build %s: %w", r.id, err)
	}
	return r, nil
}

func unknownBuild(cause error) error { return fault.NotFound.New("There is no such build", cause) }

// get reads a build; fault.NotFound when there is none.
func (s store) get(ctx context.Context, id string) (record, error) { return s.one(ctx, `id = $1`, id) }

// one reads the first build that a condition holds for; fault.NotFound when there is
// none.
func (s store) one(ctx context.Context, where string, args ...any) (record, error) {
	return scan(s.db.QueryRowContext(ctx, `SELECT `+columns+` FROM build_builds WHERE `+where, args...))
}

// list reads the builds that a condition holds for.
func (s store) list(ctx context.Context, where string, args ...any) ([]record, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+columns+` FROM build_builds WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []record
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// count counts the builds that a condition holds for.
func (s store) count(ctx context.Context, where string, args ...any) (n int32, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM build_builds WHERE `+where, args...).Scan(&n)
	return n, err
}

// change runs an update and says whether it found what it was to change.
func (s store) change(ctx context.Context, query string, args ...any) (bool, error) {
	res, err := s.db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
