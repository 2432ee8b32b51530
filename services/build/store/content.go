package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// Data besides builds: contexts, logs, and caches to import.

// PutContext stores a build context by its digest, at least until the given time.
func (s Store) PutContext(ctx context.Context, digest string, content []byte, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO build_contexts (digest, content, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET expires_at =
			CASE WHEN build_contexts.expires_at < excluded.expires_at THEN excluded.expires_at ELSE build_contexts.expires_at END`,
		digest, content, sqldb.Micros(until))
	return err
}

// Context returns a build context, or fault.NotFound.
func (s Store) Context(ctx context.Context, digest string) ([]byte, error) {
	var content []byte
	err := s.db.QueryRowContext(ctx, `SELECT content FROM build_contexts WHERE digest = $1`, digest).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFound.New("There is no such build context", err)
	}
	return content, err
}

// RemoveContexts deletes the contexts that expired before a time.
func (s Store) RemoveContexts(ctx context.Context, now time.Time) error {
	_, err := s.change(ctx, `DELETE FROM build_contexts WHERE expires_at < $1`, sqldb.Micros(now))
	return err
}

// PutLog stores a part of a log, which begins with the line first. An existing part is
// kept.
func (s Store) PutLog(ctx context.Context, id string, first int64, chunk *buildv1.LogChunk) error {
	if len(chunk.GetEntries()) == 0 {
		return nil
	}
	raw, err := proto.Marshal(chunk)
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `
		INSERT INTO build_logs (build_id, first, chunk) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, id, first, raw)
	return err
}

// LogBefore returns the position after which LogAfter finds the part that contains a line.
func (s Store) LogBefore(ctx context.Context, id string, line int64) (first int64, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT COALESCE(MAX(first), 1) - 1 FROM build_logs WHERE build_id = $1 AND first <= $2`, id, line).Scan(&first)
	return first, err
}

// LogAfter returns the next part of a log after a line, or fault.NotFound.
func (s Store) LogAfter(ctx context.Context, id string, line int64) (first int64, chunk *buildv1.LogChunk, err error) {
	var raw []byte
	err = s.db.QueryRowContext(ctx, `
		SELECT first, chunk FROM build_logs WHERE build_id = $1 AND first > $2 ORDER BY first LIMIT 1`, id, line).Scan(&first, &raw)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil, fault.NotFound.New("The log ends here", err)
	}
	if err != nil {
		return 0, nil, err
	}
	chunk = &buildv1.LogChunk{}
	if err := proto.Unmarshal(raw, chunk); err != nil {
		return 0, nil, fmt.Errorf("reading the stored log of %s: %w", id, err)
	}
	return first, chunk, nil
}

// PutCache stores which cache a build may import, and replaces the previous one.
func (s Store) PutCache(ctx context.Context, rec Record, digest string, now time.Time) error {
	_, err := s.change(ctx, `
		INSERT INTO build_caches (scope, platform, repository, digest, noted_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (scope, platform, repository) DO UPDATE SET digest = excluded.digest, noted_at = excluded.noted_at`,
		rec.CacheScope(), rec.Request.GetRecipe().GetPlatform(), rec.Request.GetTarget().GetCacheRepository(), digest, sqldb.Micros(now))
	return err
}

// Cache returns the digest of the cache that a build may import; "" for none.
func (s Store) Cache(ctx context.Context, rec Record) (d string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT digest FROM build_caches WHERE scope = $1 AND platform = $2 AND repository = $3`,
		rec.CacheScope(), rec.Request.GetRecipe().GetPlatform(), rec.Request.GetTarget().GetCacheRepository()).Scan(&d)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return d, err
}
