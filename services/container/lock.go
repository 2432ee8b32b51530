package container

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
)

// A solved holds a request's Conda packages with their solution, as far as it is known before
// the build.
type solved struct {
	// packages are those of the request, some of which may be built from source instead.
	packages request.Packages
	solution request.Solution
	// base is the digest of the base image in the stored lock that the solution comes from;
	// "" for a new solution.
	base digest.Digest
	// lockID is the ID of the stored lock that the solution comes from or replaces; "" for
	// none.
	lockID string
	// build is the build of stored packages that are pending; otherwise nil.
	build *buildv1.SubmitBuildRequest
}

// isStored reports whether the solution comes from a stored lock.
func (k solved) isStored() bool { return k.base != "" }

// hasLayers reports whether the image can be assembled from the packages: they are locked, or
// will be before the build.
func (k solved) hasLayers() bool {
	switch k.solution.(type) {
	case *request.Locked, request.Pending:
		return true
	}
	return false
}

// oldestLock returns the time since which stored locks are used; zero for all of them.
func (s *Service) oldestLock(now time.Time) time.Time {
	if s.deps.CondaLockTTL == 0 {
		return time.Time{}
	}
	return now.Add(-s.deps.CondaLockTTL)
}

// storedSolution returns the stored solution of packages, unless it is older than
// conda_lock_ttl. The packages are pending if the request was queued unsolved and its image
// exists or is being built.
func (s *Service) storedSolution(ctx context.Context, r request.Resolved, of request.Packages) (solved, bool) {
	shared, own := r.LockIDs(of, caller.Of(r.Caller))
	lock, err := s.store.LockOf(ctx, own, shared, s.oldestLock(s.deps.Now()))
	if err != nil {
		if !errors.Is(err, sql.ErrNoRows) {
			s.deps.Log.WarnContext(ctx, "A stored lock cannot be read; the packages are solved again", "err", err)
		}
		return solved{}, false
	}
	if lock.Lock != nil {
		known := solved{packages: of, solution: request.SolutionOf(lock.Lock, r.Platforms, of.IsBase), base: lock.Base, lockID: lock.ID}
		return known, known.hasLayers()
	}
	b, err := s.draft(ctx, r, r.PackagePlan(of, nil, lock.Base))
	if err != nil || !s.imageExists(ctx, b) {
		return solved{}, false
	}
	return solved{packages: of, solution: request.Pending{}, base: lock.Base, lockID: lock.ID, build: b}, true
}

// imageExists reports whether an image exists or is being built.
func (s *Service) imageExists(ctx context.Context, b *buildv1.SubmitBuildRequest) bool {
	made, err := s.lookUp(ctx, b)
	return err == nil && made.GetCached()
}

// lookUp returns the response to a build if its image exists or is being built; otherwise it
// returns the reason of the last failure.
func (s *Service) lookUp(ctx context.Context, b *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	dry := proto.CloneOf(b)
	dry.DryRun = true
	return s.deps.Build.SubmitBuild(ctx, dry)
}

// storeLock stores a new solution of a request. A refresh by a caller is only stored for that
// caller and does not affect others. A solution that replaces an outdated lock is stored in
// its place.
func (s *Service) storeLock(ctx context.Context, r request.Resolved, known solved, base digest.Digest) error {
	lock, _ := known.solution.(*request.Locked)
	var packed []byte
	if lock != nil {
		var err error
		if packed, err = sqldb.Pack(lock.SolvePackagesResponse); err != nil {
			return err
		}
	}
	if err := s.charge(ctx, r.Caller, storeCost(len(packed))); err != nil {
		return err
	}
	id, own := r.LockIDs(known.packages, caller.Of(r.Caller))
	now := s.deps.Now()
	since := s.oldestLock(now)
	if r.Raw.GetRefresh() { // the solution for others is unchanged
		id, since = own, now
	}
	if known.lockID != "" {
		id, since = known.lockID, now
	}
	if lock == nil && r.Caller != nil || lock != nil && lock.GetPrivate() {
		id = own
	}
	if err := s.store.PutLock(ctx, id, packed, base, now, since); err != nil {
		s.deps.Log.WarnContext(ctx, "A lock was not stored", "err", err)
	}
	return nil
}
