package build

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

// What is kept beside builds: contexts, logs and the caches that may be imported.

func (s store) putContext(ctx context.Context, digest string, content []byte, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO build_contexts (digest, content, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET expires_at =
			CASE WHEN build_contexts.expires_at < excluded.expires_at THEN excluded.expires_at ELSE build_contexts.expires_at END`,
		digest, content, sqldb.Micros(until))
	return err
}

func (s store) context(ctx context.Context, digest string) ([]byte, error) {
	var content []byte
	err := s.db.QueryRowContext(ctx, `SELECT content FROM build_contexts WHERE digest = $1`, digest).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFound.New("There is no such build context", err)
	}
	return content, err
}

// removeContexts removes those that expired before a moment.
func (s store) removeContexts(ctx context.Context, now time.Time) error {
	_, err := s.change(ctx, `DELETE FROM build_contexts WHERE expires_at < $1`, sqldb.Micros(now))
	return err
}

// putLog keeps a part of a log, which begins with the line first. One that is
// there already stays.
func (s store) putLog(ctx context.Context, id string, first int64, chunk *buildv1.LogChunk) error {
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

// logBefore is the place behind which logAfter finds the part that a line is in.
func (s store) logBefore(ctx context.Context, id string, line int64) (first int64, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT COALESCE(MAX(first), 1) - 1 FROM build_logs WHERE build_id = $1 AND first <= $2`, id, line).Scan(&first)
	return first, err
}

// logAfter reads the next part of a log that begins after a line; fault.NotFound
// when there is none.
func (s store) logAfter(ctx context.Context, id string, line int64) (first int64, chunk *buildv1.LogChunk, err error) {
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

// putCache keeps which cache a build may import, in the place of the one before.
func (s store) putCache(ctx context.Context, rec record, digest string, now time.Time) error {
	_, err := s.change(ctx, `
		INSERT INTO build_caches (scope, platform, repository, digest, noted_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (scope, platform, repository) DO UPDATE SET digest = excluded.digest, noted_at = excluded.noted_at`,
		cacheScope(rec), rec.request.GetRecipe().GetPlatform(), rec.request.GetTarget().GetCacheRepository(), digest, sqldb.Micros(now))
	return err
}

// cache is the digest of the cache that a build may import; "" for none.
func (s store) cache(ctx context.Context, rec record) (d string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT digest FROM build_caches WHERE scope = $1 AND platform = $2 AND repository = $3`,
		cacheScope(rec), rec.request.GetRecipe().GetPlatform(), rec.request.GetTarget().GetCacheRepository()).Scan(&d)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return d, err
}
