package build

import (
	"context"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
)

// noteCache remembers which cache a build has exported: the daemon believes what a
// cache manifest says of the steps of any build, and who may write to the cache's
// repository could say anything. Later builds of the same owner import this one and
// no other. A cache that is not noted only makes them slower.
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
		s.deps.Log.WarnContext(ctx, "The cache that a build exported was not noted", "build_id", rec.ID, "err", err)
	}
}
