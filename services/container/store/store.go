// Package store owns the tables container_*: requests, the digests that their names
// resolved to, layers in requests, and locks. It contains no business logic and only
// accesses the database.
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
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// A Store accesses the tables container_*.
type Store struct {
	db *sqldb.DB
	// requests writes rows of container_requests.
	requests *sqldb.GroupWriter
}

// New returns a store. The database must have the tables before the first call.
func New(db *sqldb.DB) Store {
	return Store{db: db, requests: db.NewGroupWriter(`
		INSERT INTO container_requests (id, created_at, expires_at, revoked_at, revocation_sent,
			endpoint, user_id, workspace_id, email, client_ip, build_id, request, plan, workflow_id, restriction, organization_id)
		VALUES ($1, $2, $3, 0, false, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`)}
}

// A Record is a row of container_requests.
type Record struct {
	// Key is the ID of the request.
	Key              string
	Created, Expires time.Time
	// Revoked is zero if the request is not revoked.
	Revoked  time.Time
	ClientIP string
	Request  *containerv1.ContainerRequest
	Plan     *containerv1.Plan
}

// Works returns fault.NotFound if a request's name can no longer be pulled.
func (r Record) Works(now time.Time) error {
	switch {
	case !r.Revoked.IsZero():
		return Unknown(tokens.ErrRevoked)
	case !now.Before(r.Expires):
		return Unknown(errors.New("the token has expired"))
	}
	return nil
}

// Insert stores a request under its ID, without its token.
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
		run = "" // it belongs to no user
	}
	return s.requests.Exec(ctx,
		tokens.IDOf(r.Plan.GetToken()), sqldb.Micros(r.Created), sqldb.Micros(r.Expires),
		id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId(), id.GetEmail(), r.ClientIP, r.Plan.GetBuildId(), request, plan, run, caller.Of(id).Restriction(), caller.Of(id).OrganizationID)
}

// Get returns a request by its ID or its token, with all digests that it has resolved to.
// It returns fault.NotFound for an unknown request. All methods that take a token also take
// an ID.
func (s Store) Get(ctx context.Context, token string) (Record, error) {
	r, err := scanned(s.db.PreparedRow(ctx, `SELECT `+columns+` FROM container_requests WHERE id = $1`, tokens.IDOf(token)))
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, Unknown(err)
	}
	if err != nil {
		return Record{}, err
	}
	later, err := s.Digests(ctx, r.Key)
	r.Plan.Token = ""
	if tokens.Is(token) {
		r.Plan.Token = token
	}
	r.Plan.Digests = append(later, r.Plan.GetDigests()...)
	return r, err
}

// columns lists the columns that scanned reads.
const columns = `id, created_at, expires_at, revoked_at, request, plan, client_ip`

// scanned reads a row, without the digests that were recorded later.
func scanned(row interface{ Scan(into ...any) error }) (Record, error) {
	var created, expires, revoked int64
	var request, plan []byte
	r := Record{Request: &containerv1.ContainerRequest{}, Plan: &containerv1.Plan{}}
	if err := row.Scan(&r.Key, &created, &expires, &revoked, &request, &plan, &r.ClientIP); err != nil {
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

// Unknown returns the fault.NotFound for a request that does not exist or was deleted.
func Unknown(cause error) error {
	return fault.NotFound.New("There is no such container request, or it has expired", cause)
}

// Digests returns the digests that were recorded for a request after it was made, or for a kept image,
// newest first.
func (s Store) Digests(ctx context.Context, key string) ([]string, error) {
	return sqldb.Listing[string]{Scan: scannedText, Read: `
		SELECT digest FROM container_digests WHERE request_id = $1 ORDER BY recorded_at DESC LIMIT $2`}.All(ctx, s.db, key, tokens.MaxDigests)
}

// scannedText reads a row of one text.
func scannedText(rows *sql.Rows) (text string, err error) {
	err = rows.Scan(&text)
	return text, err
}

// scannedRow is scanned for a list.
func scannedRow(rows *sql.Rows) (Record, error) { return scanned(rows) }

// AddDigest records another digest that a request, by key, resolves to.
func (s Store) AddDigest(ctx context.Context, key, digest string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_digests (request_id, digest, recorded_at) VALUES ($1, $2, $3)
		ON CONFLICT (request_id, digest) DO UPDATE SET recorded_at = excluded.recorded_at`,
		key, digest, sqldb.Micros(now))
	return err
}

// Revoke revokes a request. It returns fault.NotFound if there is no unexpired request.
// Revoking it again has no effect.
func (s Store) Revoke(ctx context.Context, token string, now time.Time) error {
	res, err := s.db.ExecContext(ctx, `
		UPDATE container_requests
		SET revoked_at = CASE WHEN revoked_at = 0 THEN $2 ELSE revoked_at END
		WHERE id = $1 AND expires_at > $2`, tokens.IDOf(token), sqldb.Micros(now))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, Unknown(nil))
	}
	return nil
}

// IsAwaited reports whether an unexpired request or a kept image refers to the build.
func (s Store) IsAwaited(ctx context.Context, buildID string, now time.Time) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM container_requests WHERE build_id = $1 AND build_id <> '' AND revoked_at = 0 AND expires_at > $2)
			+ (SELECT count(*) FROM container_kept WHERE build_id = $1 AND deleted_at = 0)`, buildID, sqldb.Micros(now)).Scan(&n)
	return n > 0, err
}

// Unsent returns up to 1000 unexpired requests that were revoked and whose revocation was not
// published to all replicas: their expiry by key.
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

// MarkSent records that the revocation of a token or a key was published.
func (s Store) MarkSent(ctx context.Context, token string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_requests SET revocation_sent = true WHERE id = $1`, tokens.IDOf(token))
	return err
}

// ExtendLayer extends the life of a stored layer to until, and returns false if it is not
// stored.
func (s Store) ExtendLayer(ctx context.Context, digest string, until time.Time) (bool, error) {
	var expires int64
	err := s.db.QueryRowContext(ctx, `SELECT expires_at FROM container_layers WHERE digest = $1`, digest).Scan(&expires)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil || !sqldb.Time(expires).Before(until) {
		return err == nil, err
	}
	// Add a day, so that a layer in use is not updated by every request.
	res, err := s.db.ExecContext(ctx, `UPDATE container_layers SET expires_at = $2 WHERE digest = $1 AND expires_at < $2`,
		digest, sqldb.Micros(until.Add(24*time.Hour)))
	return s.db.Changed(res, err)
}

// PutLayer stores a layer until a day after until, or extends the life of a stored one.
func (s Store) PutLayer(ctx context.Context, digest string, content []byte, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_layers (digest, content, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET expires_at =
			CASE WHEN container_layers.expires_at < excluded.expires_at THEN excluded.expires_at ELSE container_layers.expires_at END`,
		digest, content, sqldb.Micros(until.Add(24*time.Hour)))
	return err
}

// Layer returns the content of a layer, or fault.NotFound if it is not stored.
func (s Store) Layer(ctx context.Context, digest string) ([]byte, error) {
	var content []byte
	err := s.db.QueryRowContext(ctx, `SELECT content FROM container_layers WHERE digest = $1`, digest).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFound.New("There is no such layer", err)
	}
	return content, err
}

// DeleteLayers deletes expired layers.
func (s Store) DeleteLayers(ctx context.Context, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM container_layers WHERE expires_at < $1`, sqldb.Micros(now))
	return err
}
