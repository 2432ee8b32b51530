package container

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/sqldb"
)

// due lists some live requests that belong to a run and end before an instant, by
// key. Their plans lack the token, and the digests that were recorded later.
func (s store) due(ctx context.Context, after string, now, before time.Time) ([]record, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT id, expires_at, request, plan FROM container_requests
		WHERE workflow_id <> '' AND id > $1 AND revoked_at = 0 AND expires_at > $2 AND expires_at < $3 ORDER BY id LIMIT 200`,
		after, sqldb.Micros(now), sqldb.Micros(before))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []record
	for rows.Next() {
		var expires int64
		var request, plan []byte
		var key string
		if err := rows.Scan(&key, &expires, &request, &plan); err != nil {
			return nil, err
		}
		r := record{key: key, expires: sqldb.Time(expires), request: &containerv1.ContainerRequest{}, plan: &containerv1.Plan{}}
		if err := proto.Unmarshal(request, r.request); err != nil {
			return nil, fmt.Errorf("reading a stored request: %w", err)
		}
		if err := proto.Unmarshal(plan, r.plan); err != nil {
			return nil, fmt.Errorf("reading a stored plan: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// prolong writes a later end, unless the request was revoked or ends otherwise
// than it did: then it returns false.
func (s store) prolong(ctx context.Context, r record, was time.Time) (bool, error) {
	plan, err := proto.Marshal(withoutToken(r.plan))
	if err != nil {
		return false, err
	}
	res, err := s.db.ExecContext(ctx, `
		UPDATE container_requests SET expires_at = $2, plan = $3 WHERE id = $1 AND revoked_at = 0 AND expires_at = $4`,
		r.key, sqldb.Micros(r.expires), plan, sqldb.Micros(was))
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
