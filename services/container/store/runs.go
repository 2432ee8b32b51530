package store

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/sqldb"
)

// Due lists up to 200 unexpired requests that belong to a run and expire before a time, in the
// order of their keys, beginning after the given key. Their plans lack the token and the
// digests that were recorded later.
func (s Store) Due(ctx context.Context, after string, now, before time.Time) ([]Record, error) {
	return sqldb.Listing[Record]{Scan: scannedRow, Read: `
		SELECT ` + columns + ` FROM container_requests
		WHERE workflow_id <> '' AND id > $1 AND revoked_at = 0 AND expires_at > $2 AND expires_at < $3 ORDER BY id LIMIT 200`,
	}.All(ctx, s.db, after, sqldb.Micros(now), sqldb.Micros(before))
}

// Prolong sets a later expiry. It returns false if the request was revoked or its expiry
// differs from was.
func (s Store) Prolong(ctx context.Context, r Record, was time.Time) (bool, error) {
	plan, err := proto.Marshal(tokens.Without(r.Plan))
	if err != nil {
		return false, err
	}
	res, err := s.db.ExecContext(ctx, `
		UPDATE container_requests SET expires_at = $2, plan = $3 WHERE id = $1 AND revoked_at = 0 AND expires_at = $4`,
		r.Key, sqldb.Micros(r.Expires), plan, sqldb.Micros(was))
	return s.db.Changed(res, err)
}
