package store

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// OfBuild lists a user's live requests for what a build makes, by key, whatever the
// workspace.
func (s Store) OfBuild(ctx context.Context, buildID string, who *platformv1.Identity, now time.Time) ([]string, error) {
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

// OfUser lists a user's requests that come after a place, the newest first, whatever the
// workspace.
func (s Store) OfUser(ctx context.Context, who *platformv1.Identity, from Place, most int) ([]Record, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+columns+` FROM container_requests
		WHERE endpoint = $1 AND endpoint <> '' AND user_id = $2 AND (created_at, id) < ($3, $4)
		ORDER BY created_at DESC, id DESC LIMIT $5`, who.GetEndpoint(), who.GetUserId(), from.created, from.key, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Record
	for rows.Next() {
		r, err := scanned(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Place is where in the list of a user's requests a page ends: at the last one shown.
type Place struct {
	created int64
	key     string
}

// PlaceOf is the place after a record.
func PlaceOf(r Record) Place { return Place{sqldb.Micros(r.Created), r.Key} }

// String is the place as a page token.
func (p Place) String() string { return strconv.FormatInt(p.created, 10) + "." + p.key }

// ReadPlace reads a page token; "" is before the newest request.
func ReadPlace(text string) (Place, error) {
	if text == "" {
		return Place{created: math.MaxInt64}, nil
	}
	created, key, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(created, 10, 64)
	if err != nil || n < 0 || !tokens.IsKey(key) {
		return Place{}, fault.Invalid.New("pageToken is none that a page of this list came with", err)
	}
	return Place{n, key}, nil
}
