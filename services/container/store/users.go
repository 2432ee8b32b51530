package store

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// OfBuild returns the keys of a user's valid requests for the result of a build. If the identity
// has a workspace or repositories, only requests with the same are a user's, here and below.
func (s Store) OfBuild(ctx context.Context, buildID string, who *platformv1.Identity, now time.Time) ([]string, error) {
	return sqldb.Listing[string]{Scan: scannedText, Read: `
		SELECT id FROM container_requests
		WHERE build_id = $1 AND build_id <> '' AND revoked_at = 0 AND expires_at > $2 AND endpoint = $3 AND user_id = $4
			AND (workspace_id = $5 OR $5 = 0) AND (restriction = $6 OR $6 = '')`,
	}.All(ctx, s.db, buildID, sqldb.Micros(now), who.GetEndpoint(), who.GetUserId(), who.GetWorkspaceId(), caller.Of(who).Restriction())
}

// OfUsers returns requests of users for the result of a build that were made until a time and are
// not revoked, ordered by their keys, which are above after.
func (s Store) OfUsers(ctx context.Context, buildID string, until time.Time, after string) ([]Record, error) {
	return sqldb.Listing[Record]{Scan: scannedRow, Read: `
		SELECT ` + columns + ` FROM container_requests
		WHERE build_id = $1 AND build_id <> '' AND endpoint <> '' AND created_at <= $2 AND revoked_at = 0 AND id > $3
		ORDER BY id LIMIT 100`,
	}.All(ctx, s.db, buildID, sqldb.Micros(until), after)
}

// HasRequested reports whether a user's request for the result of a build is stored.
func (s Store) HasRequested(ctx context.Context, buildID string, who *platformv1.Identity) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM container_requests WHERE build_id = $1 AND build_id <> '' AND endpoint = $2 AND user_id = $3
			AND (workspace_id = $4 OR $4 = 0) AND (restriction = $5 OR $5 = '')`,
		buildID, who.GetEndpoint(), who.GetUserId(), who.GetWorkspaceId(), caller.Of(who).Restriction()).Scan(&n)
	return n > 0, err
}

// OfUser lists up to most of a user's requests after a position in the list, newest first.
func (s Store) OfUser(ctx context.Context, who *platformv1.Identity, from PagePosition, most int) ([]Record, error) {
	return sqldb.Listing[Record]{Scan: scannedRow, Read: `
		SELECT ` + columns + ` FROM container_requests
		WHERE endpoint = $1 AND endpoint <> '' AND user_id = $2 AND (created_at, id) < ($3, $4)
			AND (workspace_id = $6 OR $6 = 0) AND (restriction = $7 OR $7 = '')
		ORDER BY created_at DESC, id DESC LIMIT $5`,
	}.All(ctx, s.db, who.GetEndpoint(), who.GetUserId(), from.created, from.key, most, who.GetWorkspaceId(), caller.Of(who).Restriction())
}

// A PagePosition is the position of a page's last item in the list of a user's requests.
type PagePosition struct {
	created int64
	key     string
}

// PositionOf returns the position after a record.
func PositionOf(r Record) PagePosition { return PagePosition{sqldb.Micros(r.Created), r.Key} }

// String returns the position as a page token.
func (p PagePosition) String() string { return strconv.FormatInt(p.created, 10) + "." + p.key }

// ParsePosition parses a page token; "" is the start of the list.
func ParsePosition(text string) (PagePosition, error) {
	if text == "" {
		return PagePosition{created: math.MaxInt64}, nil
	}
	created, key, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(created, 10, 64)
	if err != nil || n < 0 || !tokens.IsID(key) {
		return PagePosition{}, fault.Invalid.New("pageToken is invalid: send the nextPageToken of a page of this list", err)
	}
	return PagePosition{n, key}, nil
}
