package container

import (
	"context"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/sqldb"
)

// ofBuild lists a user's live requests for what a build makes, by key, whatever the
// workspace.
func (s store) ofBuild(ctx context.Context, buildID string, who *platformv1.Identity, now time.Time) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT id FROM container_requests
		WHERE build_id = $1 AND build_id <> '' AND revoked_at = 0 AND expires_at > $2 AND endpoint = $3 AND user_id = $4`,
		buildID, sqldb.Micros(now), who.GetEndpoint(), who.GetUserId())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	return out, rows.Err()
}

// ofUser lists a user's requests that come after a place, the newest first, whatever the
// workspace.
func (s store) ofUser(ctx context.Context, who *platformv1.Identity, from place, most int) ([]record, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+recordColumns+` FROM container_requests
		WHERE endpoint = $1 AND endpoint <> '' AND user_id = $2 AND (created_at, id) < ($3, $4)
		ORDER BY created_at DESC, id DESC LIMIT $5`, who.GetEndpoint(), who.GetUserId(), from.created, from.key, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []record
	for rows.Next() {
		r, err := scanned(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
