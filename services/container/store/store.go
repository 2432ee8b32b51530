// Package store owns the tables container_*: requests, the digests that their names have
// stood for, layers that came with requests, and locks. It decides nothing, and speaks to
// nobody but the database.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// Store is the tables container_*.
type Store struct {
	db *sqldb.DB
	// requests writes rows of container_requests.
	requests *sqldb.Together
}

// New takes a database that has the tables, or will have them before it is asked.
func New(db *sqldb.DB) Store {
	return Store{db: db, requests: db.Together(`
		INSERT INTO container_requests (id, created_at, expires_at, revoked_at, revocation_sent,
			endpoint, user_id, workspace_id, email, client_ip, build_id, request, plan, workflow_id)
		VALUES ($1, $2, $3, 0, false, $4, $5, $6, $7, $8, $9, $10, $11, $12)`)}
}

// Record is a row of container_requests.
type Record struct {
	// Key is what it is kept under: the hash of its token.
	Key              string
	Created, Expires time.Time
	// Revoked is zero while the request is not.
	Revoked  time.Time
	ClientIP string
	Request  *containerv1.ContainerRequest
	Plan     *containerv1.Plan
}

// Works says whether a request's name can be pulled; fault.NotFound when it no longer can.
func (r Record) Works(now time.Time) error {
	switch {
	case !r.Revoked.IsZero():
		return Unknown(tokens.ErrRevoked)
	case !now.Before(r.Expires):
		return Unknown(errors.New("the token has expired"))
	}
	return nil
}

// Insert keeps a request under the key of its token, which is not kept.
func (s Store) Insert(ctx context.Context, r Record) error {
	request, err := proto.Marshal(r.Request)
	if err != nil {
		return err
	}
	plan, err := proto.Marshal(tokens.Without(r.Plan))
	if err != nil {
		return err
	}
	id := r.Plan.GetIdentity()
	run := r.Request.GetWorkflowId()
	if id == nil {
		run = "" // nobody's
	}
	return s.requests.Exec(ctx,
		tokens.KeyOf(r.Plan.GetToken()), sqldb.Micros(r.Created), sqldb.Micros(r.Expires),
		id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId(), id.GetEmail(), r.ClientIP, r.Plan.GetBuildId(), request, plan, run)
}

// Get reads a request, by its token or its key, with all digests it has resolved to; fault.NotFound when
// there is none. Like all that takes a token, it also finds what is still kept under
// the token itself (see hashTokens).
func (s Store) Get(ctx context.Context, token string) (Record, error) {
	r, err := scanned(s.db.PreparedRow(ctx, `SELECT `+columns+` FROM container_requests WHERE id IN ($1, $2)`, tokens.KeyOf(token), token))
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, Unknown(err)
	}
	if err != nil {
		return Record{}, err
	}
	later, err := s.digests(ctx, r.Key)
	r.Plan.Token = ""
	if tokens.Is(token) {
		r.Plan.Token = token
	}
	r.Plan.Digests = append(later, r.Plan.GetDigests()...)
	return r, err
}

// columns are what scanned reads.
const columns = `id, created_at, expires_at, revoked_at, request, plan`

// scanned reads a row, without the digests that were recorded later.
func scanned(row interface{ Scan(into ...any) error }) (Record, error) {
	var created, expires, revoked int64
	var request, plan []byte
	r := Record{Request: &containerv1.ContainerRequest{}, Plan: &containerv1.Plan{}}
	if err := row.Scan(&r.Key, &created, &expires, &revoked, &request, &plan); err != nil {
		return Record{}, err
	}
	r.Created, r.Expires, r.Revoked = sqldb.Time(created), sqldb.Time(expires), sqldb.Time(revoked)
	if err := proto.Unmarshal(request, r.Request); err != nil {
		return Record{}, fmt.Errorf("reading the stored request: %w", err)
	}
	if err := proto.Unmarshal(plan, r.Plan); err != nil {
		return Record{}, fmt.Errorf("reading the stored plan: %w", err)
	}
	return r, nil
}

// Unknown is the fault.NotFound of a request that is not there, or no longer.
func Unknown(cause error) error {
	return fault.NotFound.New("There is no such container request, or it has expired", cause)
}

// digests lists what was recorded after the request was made, newest first.
func (s Store) digests(ctx context.Context, key string) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT digest FROM container_digests WHERE request_id = $1 ORDER BY recorded_at DESC LIMIT $2`, key, tokens.MaxDigests)
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

// AddDigest keeps one more digest that a request, by key, stands for now.
func (s Store) AddDigest(ctx context.Context, key, digest string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_digests (request_id, digest, recorded_at) VALUES ($1, $2, $3)
		ON CONFLICT (request_id, digest) DO UPDATE SET recorded_at = excluded.recorded_at`,
		key, digest, sqldb.Micros(now))
	return err
}

// Revoke marks a request; fault.NotFound when there is none that has not
// expired. One that is revoked already stays as it is.
func (s Store) Revoke(ctx context.Context, token string, now time.Time) error {
	res, err := s.db.ExecContext(ctx, `
		UPDATE container_requests
		SET revoked_at = CASE WHEN revoked_at = 0 THEN $2 ELSE revoked_at END
		WHERE id IN ($1, $3) AND expires_at > $2`, tokens.KeyOf(token), sqldb.Micros(now), token)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, Unknown(nil))
	}
	return nil
}

// IsAwaited says whether a live request has the build.
func (s Store) IsAwaited(ctx context.Context, buildID string, now time.Time) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM container_requests
		WHERE build_id = $1 AND build_id <> '' AND revoked_at = 0 AND expires_at > $2`, buildID, sqldb.Micros(now)).Scan(&n)
	return n > 0, err
}

// Unsent lists live revoked requests that not everybody was told of, by key.
func (s Store) Unsent(ctx context.Context, now time.Time) (map[string]time.Time, error) {
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

// MarkSent notes that everybody was told that a token, or a key, is revoked.
func (s Store) MarkSent(ctx context.Context, token string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_requests SET revocation_sent = true WHERE id IN ($1, $2)`, tokens.KeyOf(token), token)
	return err
}

// ExtendLayer makes a stored layer live until then at least; false when it is
// not stored.
func (s Store) ExtendLayer(ctx context.Context, digest string, until time.Time) (bool, error) {
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

// PutLayer keeps a layer until then, and a day; one that is there lives as long at least.
func (s Store) PutLayer(ctx context.Context, digest string, content []byte, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_layers (digest, content, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET expires_at =
			CASE WHEN container_layers.expires_at < excluded.expires_at THEN excluded.expires_at ELSE container_layers.expires_at END`,
		digest, content, sqldb.Micros(until.Add(24*time.Hour)))
	return err
}

// Layer reads the content of a layer; fault.NotFound when it is not stored.
func (s Store) Layer(ctx context.Context, digest string) ([]byte, error) {
	var content []byte
	err := s.db.QueryRowContext(ctx, `SELECT content FROM container_layers WHERE digest = $1`, digest).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFound.New("There is no such layer", err)
	}
	return content, err
}

// DeleteLayers removes those that have expired.
func (s Store) DeleteLayers(ctx context.Context, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM container_layers WHERE expires_at < $1`, sqldb.Micros(now))
	return err
}

// DeleteRequests removes those that expired before a moment, and their digests.
func (s Store) DeleteRequests(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		DELETE FROM container_digests WHERE request_id IN (SELECT id FROM container_requests WHERE expires_at < $1)`,
		sqldb.Micros(before))
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `DELETE FROM container_requests WHERE expires_at < $1`, sqldb.Micros(before))
	return err
}
