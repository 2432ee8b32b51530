package store

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/sqldb"
)

// Due lists some live requests that belong to a run and end before an instant, by
// key. Their plans lack the token, and the digests that were recorded later.
func (s Store) Due(ctx context.Context, after string, now, before time.Time) ([]Record, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT id, expires_at, request, plan FROM container_requests
		WHERE workflow_id <> '' AND id > $1 AND revoked_at = 0 AND expires_at > $2 AND expires_at < $3 ORDER BY id LIMIT 200`,
		after, sqldb.Micros(now), sqldb.Micros(before))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Record
	for rows.Next() {
		var expires int64
		var request, plan []byte
		var key string
		if err := rows.Scan(&key, &expires, &request, &plan); err != nil {
			return nil, err
		}
		r := Record{Key: key, Expires: sqldb.Time(expires), Request: &containerv1.ContainerRequest{}, Plan: &containerv1.Plan{}}
		if err := proto.Unmarshal(request, r.Request); err != nil {
			return nil, fmt.Errorf("reading a stored request: %w", err)
		}
		if err := proto.Unmarshal(plan, r.Plan); err != nil {
			return nil, fmt.Errorf("reading a stored plan: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Prolong writes a later end, unless the request was revoked or ends otherwise
// than it did: then it returns false.
func (s Store) Prolong(ctx context.Context, r Record, was time.Time) (bool, error) {
	plan, err := proto.Marshal(tokens.Without(r.Plan))
	if err != nil {
		return false, err
	}
	res, err := s.db.ExecContext(ctx, `
		UPDATE container_requests SET expires_at = $2, plan = $3 WHERE id = $1 AND revoked_at = 0 AND expires_at = $4`,
		r.Key, sqldb.Micros(r.Expires), plan, sqldb.Micros(was))
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
