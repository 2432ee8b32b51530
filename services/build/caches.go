package build

import (
	"context"
	"database/sql"
	"errors"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/sqldb"
)

// noteCache remembers which cache a build has exported: the daemon believes what a
// cache manifest says of the steps of any build, and who may write to the cache's
// repository could say anything. Later builds of the same owner import this one and
// no other. A cache that is not noted only makes them slower.
func (s *Service) noteCache(ctx context.Context, rec record, r *buildv1.Result) {
	repository, d := rec.request.GetTarget().GetCacheRepository(), r.GetCacheDigest()
	if !r.GetSucceeded() || repository == "" || d == "" {
		return
	}
	err := digest.Digest(d).Validate()
	if err == nil {
		_, err = s.store.change(ctx, `
			INSERT INTO build_caches (scope, platform, repository, digest, noted_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (scope, platform, repository) DO UPDATE SET digest = excluded.digest, noted_at = excluded.noted_at`,
			cacheScope(rec), rec.request.GetRecipe().GetPlatform(), repository, d, sqldb.Micros(s.deps.Now()))
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "The cache that a build exported was not noted", "build_id", rec.id, "err", err)
	}
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
