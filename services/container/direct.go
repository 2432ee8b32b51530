package container

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
)

// Images of Conda packages that were solved are put together of the packages
// themselves; what the request wants run is run on that. Which packages, and the base image's digest,
// decide such an image; how they were asked for does not. The same request stands for
// the same packages until its lock is forgotten (conda_lock_ttl): pipelines that are
// run again want the image that they had.

// putsPackages says whether a worker is there that puts packages together.
func (s *Service) putsPackages(ctx context.Context) bool {
	resp, err := s.deps.Build.ListEngines(ctx, &buildv1.ListEnginesRequest{})
	return err == nil && slices.ContainsFunc(resp.GetEngines(), func(e *buildv1.Engine) bool {
		return e.GetName() == "conda" && len(e.GetArchitectures()) > 0
	})
}

// recall looks for what the request stood for before.
func (s *Service) recall(ctx context.Context, r request.Request, who caller.ID) (store.Remembered, bool) {
	shared, own := r.LockIDs(who)
	known, err := s.store.LockOf(ctx, own, shared, s.deps.Now().Add(-s.deps.CondaLockTTL))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.deps.Log.WarnContext(ctx, "A remembered lock cannot be read; the packages are solved again", "err", err)
	}
	return known, err == nil
}

// remember keeps what a request stands for, now that an image is made of it. Where it
// cannot be kept, the next one is solved again.
func (s *Service) remember(ctx context.Context, r request.Request, who *platformv1.Identity) error {
	packed, err := sqldb.Pack(r.Foreseen.Solved)
	if err != nil {
		return err
	}
	if err := s.charge(ctx, who, storeCost(len(packed))); err != nil {
		return err
	}
	id, own := r.LockIDs(caller.Of(who))
	now := s.deps.Now()
	since := now.Add(-s.deps.CondaLockTTL)
	if r.Raw.GetRefresh() { // what the request stands for for others stays
		id, since = own, now
	}
	if r.Foreseen.Solved.GetPrivate() {
		id = own
	}
	if err := s.store.PutLock(ctx, id, packed, r.Recipe.BaseDigest, now, since); err != nil {
		s.deps.Log.WarnContext(ctx, "A lock was not remembered", "err", err)
	}
	return nil
}
