package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// Queries for the keys of the requests that expired before $1, the earliest first. Each reads an
// index on the time of expiry.
const (
	expiredRequests = `SELECT id FROM container_requests WHERE expires_at < $1 ORDER BY expires_at LIMIT $2`

	// expiredRequestsOf selects those of an organisation. Without the literal condition the partial index is
	// not used.
	expiredRequestsOf = `SELECT id FROM container_requests
		WHERE expires_at < $1 AND endpoint = $2 AND organization_id = $3 AND organization_id <> 0 ORDER BY expires_at LIMIT $4`
)

// An Organization identifies an organisation of a platform.
type Organization struct {
	Endpoint string
	ID       int64
}

// DeleteRequests deletes up to limits.RequestsDeleted requests that expired before a time, with
// their digests. It returns whether there may be more. Replicas may call it concurrently.
func (s Store) DeleteRequests(ctx context.Context, before time.Time) (more bool, err error) {
	return s.deleteExpired(ctx, before, expiredRequests, sqldb.Micros(before))
}

// DeleteRequestsOf is DeleteRequests for the requests of one organisation. Requests that were
// stored by a release without organisations belong to none.
func (s Store) DeleteRequestsOf(ctx context.Context, of Organization, before time.Time) (more bool, err error) {
	return s.deleteExpired(ctx, before, expiredRequestsOf, sqldb.Micros(before), of.Endpoint, of.ID)
}

// deleteExpired deletes the requests whose keys a query returns, if they expired before a time.
func (s Store) deleteExpired(ctx context.Context, before time.Time, query string, args ...any) (more bool, err error) {
	keys, err := sqldb.Listing[string]{Scan: scannedText, Read: query}.All(ctx, s.db, append(args, limits.RequestsDeleted)...)
	if err != nil || len(keys) == 0 {
		return false, err
	}
	slices.Sort(keys) // replicas lock rows in the same order
	err = s.db.Tx(ctx, func(t *sql.Tx) error {
		deleted, err := deleteKeys(ctx, t, before, keys)
		if err != nil || len(deleted) == 0 {
			return err
		}
		query := `DELETE FROM container_digests WHERE request_id IN ` + sqldb.Placeholders(1, 1, len(deleted)) //nolint:gosec // placeholders
		if _, err := t.ExecContext(ctx, query, arguments(deleted)...); err != nil {
			return fmt.Errorf("deleting the digests of requests: %w", err)
		}
		return nil
	})
	return len(keys) == limits.RequestsDeleted, err
}

// deleteKeys deletes requests by their keys, and returns the keys of those that existed and had
// expired before a time.
func deleteKeys(ctx context.Context, t *sql.Tx, before time.Time, keys []string) ([]string, error) {
	query := `DELETE FROM container_requests WHERE expires_at < $1 AND id IN ` + sqldb.Placeholders(2, 1, len(keys)) + ` RETURNING id` //nolint:gosec // placeholders
	rows, err := t.QueryContext(ctx, query, append([]any{sqldb.Micros(before)}, arguments(keys)...)...)
	if err != nil {
		return nil, fmt.Errorf("deleting requests: %w", err)
	}
	defer rows.Close()
	var deleted []string
	for rows.Next() {
		key, err := scannedText(rows)
		if err != nil {
			return nil, err
		}
		deleted = append(deleted, key)
	}
	return deleted, rows.Err()
}

func arguments(keys []string) []any {
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k
	}
	return out
}
