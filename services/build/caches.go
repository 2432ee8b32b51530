package build

import (
	"context"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
)

// noteCache records the cache that a build has exported. Later builds of the same owner
// import a cache only by a recorded digest, because other clients may have write access to
// the cache's repository, and BuildKit uses the results of steps that a cache manifest
// lists without verifying them. Without the record, later builds are only slower.
func (s *Service) noteCache(ctx context.Context, rec store.Record, r *buildv1.Result) {
	repository, d := rec.Request.GetTarget().GetCacheRepository(), r.GetCacheDigest()
	if !r.GetSucceeded() || repository == "" || d == "" {
		return
	}
	err := digest.Digest(d).Validate()
	if err == nil {
		err = s.store.PutCache(ctx, rec, d, s.deps.Now())
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "The cache that a build exported could not be recorded", "build_id", rec.ID, "err", err)
	}
}
