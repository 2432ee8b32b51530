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
	req := r.request
	id, state := req.GetIdentity(), "PENDING"
	if !r.isPending() {
		state = "COMPLETED"
	}
	res, err := s.db.ExecContext(ctx, `
		INSERT INTO build_builds (id, content_id, number, content_digest, target, scope, state, engine, architecture, owner,
			endpoint, user_id, workspace_id, email, client_ip, request, trace_parent, time_limit,
			created_at, published_at, publications, started_at, completed_at, delivery, worker, ticket,
			succeeded, reason, message, digest, counted)
		VALUES ($1, $2, $3, $4, $5, $6, $20, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
			$18, 0, 0, 0, $21, 0, '', '', $22, '', '', $23, $19)
		ON CONFLICT DO NOTHING`,
		r.id, req.GetContentId(), r.number, req.GetContentDigest(), image(req.GetTarget()), req.GetScope(),
		req.GetRecipe().GetEngine(), architecture(req.GetRecipe()), r.owner,
		id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId(), id.GetEmail(), req.GetClientIp(),
		request, r.traceParent, r.timeLimit.Microseconds(), sqldb.Micros(r.created), r.counted,
		state, sqldb.Micros(r.completed), r.succeeded, r.digest)
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

// one reads the first build that a condition holds for; fault.NotFound without.
func (s store) one(ctx context.Context, where string, args ...any) (record, error) {
	return scan(s.db.QueryRowContext(ctx, `SELECT `+columns+` FROM build_builds WHERE `+where, args...))
}

func (s store) get(ctx context.Context, id string) (record, error) {
	return s.one(ctx, `id = $1`, id)
}

// pending is the build that makes an image just now.
func (s store) pending(ctx context.Context, target, scope string) (record, error) {
	return s.one(ctx, `target = $1 AND scope = $2 AND state = 'PENDING'`, target, scope)
}

// made is the newest build that made an image.
func (s store) made(ctx context.Context, target, scope string) (record, error) {
	return s.one(ctx, `target = $1 AND scope = $2 AND state = 'COMPLETED' AND succeeded ORDER BY number DESC LIMIT 1`, target, scope)
}

// byTicket is the build whose newest delivery has a ticket.
func (s store) byTicket(ctx context.Context, hash string) (record, error) {
	return s.one(ctx, `ticket = $1 AND ticket <> '' AND state = 'PENDING'`, hash)
}

// ticket is the hash of the newest delivery's ticket; "" without one.
func (s store) ticket(ctx context.Context, id string) (hash string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT ticket FROM build_builds WHERE id = $1`, id).Scan(&hash)
	return hash, err
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

// inView is how many waiting builds of one owner the dispatcher looks at: it never
// gives out more at a time, and one owner's long queue does not hide the others'.
const inView = 50

// firstOfEach are the builds that wait, the first of each owner.
func (s store) firstOfEach(ctx context.Context) ([]record, error) {
	return s.list(ctx, `id IN (
		SELECT id FROM (
			SELECT id, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY created_at, id) AS place
			FROM build_builds WHERE state = 'PENDING' AND published_at = 0 AND engine <> $1
		) AS queue WHERE place <= $2)
		ORDER BY created_at, id LIMIT 2000`, engineIndex, inView)
}

// lastNumber is the newest build's number for a content; 0 when there is none.
func (s store) lastNumber(ctx context.Context, contentID string) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(number), 0) FROM build_builds WHERE content_id = $1`, contentID).Scan(&n)
	return n, err
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

func (s store) markPublished(ctx context.Context, id string, now time.Time) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = $2 WHERE id = $1 AND state = 'PENDING'`, id, sqldb.Micros(now))
	return err
}

// unpublish lets a build wait again: its job is no longer on the bus.
func (s store) unpublish(ctx context.Context, id string) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0
		WHERE id = $1 AND state = 'PENDING'`, id)
	return err
}

// release is unpublish for a build whose worker gave it back: its ticket was on the
// bus, and is good for nothing any more.
func (s store) release(ctx context.Context, id string) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0, ticket = ''
		WHERE id = $1 AND state = 'PENDING'`, id)
	return err
}

// take notes that a delivery was taken; false when the build has ended, or a
// later delivery was taken already.
func (s store) take(ctx context.Context, id string, delivery int64, worker, ticket string, now time.Time) (bool, error) {
	return s.change(ctx, `
		UPDATE build_builds
		SET delivery = $2, worker = $3, ticket = $4, started_at = CASE WHEN started_at = 0 THEN $5 ELSE started_at END
		WHERE id = $1 AND state = 'PENDING' AND delivery <= $2`,
		id, delivery, worker, ticket, sqldb.Micros(now))
}

// complete ends a build; false when it had ended, or the result is a failure of
// a delivery that is not the newest.
func (s store) complete(ctx context.Context, r *buildv1.Result, now time.Time) (bool, error) {
	return s.change(ctx, `
		UPDATE build_builds
		SET state = 'COMPLETED', completed_at = $2, succeeded = $3, reason = $4, message = $5, digest = $6, ticket = ''
		WHERE id = $1 AND state = 'PENDING' AND ($3 OR delivery <= $7)`,
		r.GetBuildId(), sqldb.Micros(now), r.GetSucceeded(), r.GetReason(), r.GetMessage(), r.GetDigest(), r.GetDelivery())
}

func (s store) putContext(ctx context.Context, digest string, content []byte, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO build_contexts (digest, content, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET expires_at =
			CASE WHEN build_contexts.expires_at < excluded.expires_at THEN excluded.expires_at ELSE build_contexts.expires_at END`,
		digest, content, sqldb.Micros(until))
	return err
}

func (s store) context(ctx context.Context, digest string) ([]byte, error) {
	var content []byte
	err := s.db.QueryRowContext(ctx, `SELECT content FROM build_contexts WHERE digest = $1`, digest).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFound.New("There is no such build context", err)
	}
	return content, err
}

// putLog keeps a part of a log, which begins with the line first. One that is
// there already stays.
func (s store) putLog(ctx context.Context, id string, first int64, chunk *buildv1.LogChunk) error {
	if len(chunk.GetEntries()) == 0 {
		return nil
	}
	raw, err := proto.Marshal(chunk)
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `
		INSERT INTO build_logs (build_id, first, chunk) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, id, first, raw)
	return err
}

// logBefore is the place behind which logAfter finds the part that a line is in.
func (s store) logBefore(ctx context.Context, id string, line int64) (first int64, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT COALESCE(MAX(first), 1) - 1 FROM build_logs WHERE build_id = $1 AND first <= $2`, id, line).Scan(&first)
	return first, err
}

// logAfter reads the next part of a log that begins after a line; fault.NotFound
// when there is none.
func (s store) logAfter(ctx context.Context, id string, line int64) (first int64, chunk *buildv1.LogChunk, err error) {
	var raw []byte
	err = s.db.QueryRowContext(ctx, `
		SELECT first, chunk FROM build_logs WHERE build_id = $1 AND first > $2 ORDER BY first LIMIT 1`, id, line).Scan(&first, &raw)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil, fault.NotFound.New("The log ends here", err)
	}
	if err != nil {
		return 0, nil, err
	}
	chunk = &buildv1.LogChunk{}
	if err := proto.Unmarshal(raw, chunk); err != nil {
		return 0, nil, fmt.Errorf("reading the stored log of %s: %w", id, err)
	}
	return first, chunk, nil
}
