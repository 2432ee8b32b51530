package container

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// store is the tables container_*.
type store struct {
	db *sqldb.DB
	// requests writes rows of container_requests.
	requests *sqldb.Together
}

func newStore(db *sqldb.DB) store {
	return store{db: db, requests: db.Together(`
		INSERT INTO container_requests (id, created_at, expires_at, revoked_at, revocation_sent,
			endpoint, user_id, workspace_id, email, client_ip, build_id, request, plan, workflow_id)
		VALUES ($1, $2, $3, 0, false, $4, $5, $6, $7, $8, $9, $10, $11, $12)`)}
}

// record is a row of container_requests.
type record struct {
	// key is what it is kept under: the hash of its token.
	key              string
	created, expires time.Time
	// revoked is zero while the request is not.
	revoked  time.Time
	clientIP string
	request  *containerv1.ContainerRequest
	plan     *containerv1.Plan
}

func (s store) insert(ctx context.Context, r record) error {
	request, err := proto.Marshal(r.request)
	if err != nil {
		return err
	}
	plan, err := proto.Marshal(withoutToken(r.plan))
	if err != nil {
		return err
	}
	id := r.plan.GetIdentity()
	run := r.request.GetWorkflowId()
	if id == nil {
		run = "" // nobody's
	}
	return s.requests.Exec(ctx,
		keyOf(r.plan.GetToken()), sqldb.Micros(r.created), sqldb.Micros(r.expires),
		id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId(), id.GetEmail(), r.clientIP, r.plan.GetBuildId(), request, plan, run)
}

// get reads a request, by its token or its key, with all digests it has resolved to; fault.NotFound when
// there is none. Like all that takes a token, it also finds what is still kept under
// the token itself (see hashTokens).
func (s store) get(ctx context.Context, token string) (record, error) {
	r, err := scanned(s.db.PreparedRow(ctx, `SELECT `+recordColumns+` FROM container_requests WHERE id IN ($1, $2)`, keyOf(token), token))
	if errors.Is(err, sql.ErrNoRows) {
		return record{}, unknownRequest(err)
	}
	if err != nil {
		return record{}, err
	}
	later, err := s.digests(ctx, r.key)
	r.plan.Token = ""
	if isToken(token) {
		r.plan.Token = token
	}
	r.plan.Digests = append(later, r.plan.GetDigests()...)
	return r, err
}

// recordColumns are what scanned reads.
const recordColumns = `id, created_at, expires_at, revoked_at, request, plan`

// scanned reads a row, without the digests that were recorded later.
func scanned(row interface{ Scan(into ...any) error }) (record, error) {
	var created, expires, revoked int64
	var request, plan []byte
	r := record{request: &containerv1.ContainerRequest{}, plan: &containerv1.Plan{}}
	if err := row.Scan(&r.key, &created, &expires, &revoked, &request, &plan); err != nil {
		return record{}, err
	}
	r.created, r.expires, r.revoked = sqldb.Time(created), sqldb.Time(expires), sqldb.Time(revoked)
	if err := proto.Unmarshal(request, r.request); err != nil {
		return record{}, fmt.Errorf("reading the stored request: %w", err)
	}
	if err := proto.Unmarshal(plan, r.plan); err != nil {
		return record{}, fmt.Errorf("reading the stored plan: %w", err)
	}
	return r, nil
}

func unknownRequest(cause error) error {
	return fault.NotFound.New("There is no such container request, or it has expired", cause)
}

// maxDigests is how many of the digests that a tag has moved through are kept in
// sight: a pull that is under way needs the newest few.
const maxDigests = 32

// digests lists what was recorded after the request was made, newest first.
func (s store) digests(ctx context.Context, key string) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT digest FROM container_digests WHERE request_id = $1 ORDER BY recorded_at DESC LIMIT $2`, key, maxDigests)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var d string
		if err := rows.Scan(&d); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

func (s store) addDigest(ctx context.Context, key, digest string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_digests (request_id, digest, recorded_at) VALUES ($1, $2, $3)
		ON CONFLICT (request_id, digest) DO UPDATE SET recorded_at = excluded.recorded_at`,
		key, digest, sqldb.Micros(now))
	return err
}

// revoke marks a request; fault.NotFound when there is none that has not
// expired. One that is revoked already stays as it is.
func (s store) revoke(ctx context.Context, token string, now time.Time) error {
	res, err := s.db.ExecContext(ctx, `
		UPDATE container_requests
		SET revoked_at = CASE WHEN revoked_at = 0 THEN $2 ELSE revoked_at END
		WHERE id IN ($1, $3) AND expires_at > $2`, keyOf(token), sqldb.Micros(now), token)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, unknownRequest(nil))
	}
	return nil
}

// isAwaited says whether a live request has the build.
func (s store) isAwaited(ctx context.Context, buildID string, now time.Time) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM container_requests
		WHERE build_id = $1 AND build_id <> '' AND revoked_at = 0 AND expires_at > $2`, buildID, sqldb.Micros(now)).Scan(&n)
	return n > 0, err
}

// unsent lists live revoked requests that not everybody was told of, by key.
func (s store) unsent(ctx context.Context, now time.Time) (map[string]time.Time, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT id, expires_at FROM container_requests
		WHERE revoked_at > 0 AND NOT revocation_sent AND expires_at > $1 LIMIT 1000`, sqldb.Micros(now))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]time.Time{}
	for rows.Next() {
		var id string
		var expires int64
		if err := rows.Scan(&id, &expires); err != nil {
			return nil, err
		}
		out[id] = sqldb.Time(expires)
	}
	return out, rows.Err()
}

func (s store) markSent(ctx context.Context, token string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_requests SET revocation_sent = true WHERE id IN ($1, $2)`, keyOf(token), token)
	return err
}

// extendLayer makes a stored layer live until then at least; false when it is
// not stored.
func (s store) extendLayer(ctx context.Context, digest string, until time.Time) (bool, error) {
	var expires int64
	err := s.db.QueryRowContext(ctx, `SELECT expires_at FROM container_layers WHERE digest = $1`, digest).Scan(&expires)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil || !sqldb.Time(expires).Before(until) {
		return err == nil, err
	}
	// A day more than needed, so that a layer that is in use is not written to
	// with every request.
	res, err := s.db.ExecContext(ctx, `UPDATE container_layers SET expires_at = $2 WHERE digest = $1 AND expires_at < $2`,
		digest, sqldb.Micros(until.Add(24*time.Hour)))
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

func (s store) putLayer(ctx context.Context, digest string, content []byte, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_layers (digest, content, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET expires_at =
			CASE WHEN container_layers.expires_at < excluded.expires_at THEN excluded.expires_at ELSE container_layers.expires_at END`,
		digest, content, sqldb.Micros(until.Add(24*time.Hour)))
	return err
}

// layer reads the content of a layer; fault.NotFound when it is not stored.
func (s store) layer(ctx context.Context, digest string) ([]byte, error) {
	var content []byte
	err := s.db.QueryRowContext(ctx, `SELECT content FROM container_layers WHERE digest = $1`, digest).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFound.New("There is no such layer", err)
	}
	return content, err
}

func (s store) deleteLayers(ctx context.Context, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM container_layers WHERE expires_at < $1`, sqldb.Micros(now))
	return err
}

func (s store) deleteRequests(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		DELETE FROM container_digests WHERE request_id IN (SELECT id FROM container_requests WHERE expires_at < $1)`,
		sqldb.Micros(before))
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `DELETE FROM container_requests WHERE expires_at < $1`, sqldb.Micros(before))
	return err
}
