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

// OfBuild returns the keys of a user's valid requests for the result of a build, in all
// workspaces if the identity has none.
func (s Store) OfBuild(ctx context.Context, buildID string, who *platformv1.Identity, now time.Time) ([]string, error) {
	return sqldb.Listing[string]{Scan: scannedText, Read: `
		SELECT id FROM container_requests
		WHERE build_id = $1 AND build_id <> '' AND revoked_at = 0 AND expires_at > $2 AND endpoint = $3 AND user_id = $4
			AND (workspace_id = $5 OR $5 = 0)`,
	}.All(ctx, s.db, buildID, sqldb.Micros(now), who.GetEndpoint(), who.GetUserId(), who.GetWorkspaceId())
}

// HasRequested reports whether a user's request for the result of a build is stored, in
// any workspace if the identity has none.
func (s Store) HasRequested(ctx context.Context, buildID string, who *platformv1.Identity) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM container_requests WHERE build_id = $1 AND build_id <> '' AND endpoint = $2 AND user_id = $3
			AND (workspace_id = $4 OR $4 = 0)`,
		buildID, who.GetEndpoint(), who.GetUserId(), who.GetWorkspaceId()).Scan(&n)
	return n > 0, err
}

// OfUser lists up to most of a user's requests after a place in the list, newest first, in all
// workspaces if the identity has none.
func (s Store) OfUser(ctx context.Context, who *platformv1.Identity, from Place, most int) ([]Record, error) {
	return sqldb.Listing[Record]{Scan: scannedRow, Read: `
		SELECT ` + columns + ` FROM container_requests
		WHERE endpoint = $1 AND endpoint <> '' AND user_id = $2 AND (created_at, id) < ($3, $4)
			AND (workspace_id = $6 OR $6 = 0)
		ORDER BY created_at DESC, id DESC LIMIT $5`,
	}.All(ctx, s.db, who.GetEndpoint(), who.GetUserId(), from.created, from.key, most, who.GetWorkspaceId())
}

// A Place is the position of a page's last item in the list of a user's requests.
type Place struct {
	created int64
	key     string
}

// PlaceOf returns the place after a record.
func PlaceOf(r Record) Place { return Place{sqldb.Micros(r.Created), r.Key} }

// String returns the place as a page token.
func (p Place) String() string { return strconv.FormatInt(p.created, 10) + "." + p.key }

// ReadPlace parses a page token; "" is the start of the list.
func ReadPlace(text string) (Place, error) {
	if text == "" {
		return Place{created: math.MaxInt64}, nil
	}
	created, key, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(created, 10, 64)
	if err != nil || n < 0 || !tokens.IsID(key) {
		return Place{}, fault.Invalid.New("pageToken is invalid: send the nextPageToken of a page of this list", err)
	}
	return Place{n, key}, nil
}
