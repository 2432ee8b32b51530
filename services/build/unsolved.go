package build

import (
	"context"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A build of Conda packages can be requested before its packages are solved: while the
// solver is busy, or a channel is read for the first time. Such a build waits in SQL until
// the container service has claimed it, solved its packages and stored the lock. From then
// on it is an ordinary build. No build runs without its lock.

// reasonSolve is the reason of a build whose packages conflict.
const reasonSolve = "solve"

// claimTime is how long a claimed build is hidden from other callers. After that, builds of
// a killed caller are available again.
const claimTime = time.Minute

// checkUnsolved validates a request whose packages are not solved yet.
func checkUnsolved(req *buildv1.SubmitBuildRequest) error {
	recipe := req.GetRecipe()
	switch {
	case recipe.GetEngine() != engine.Conda || recipe.GetLockDigest() != "" || req.GetLock() != nil:
		return fault.Invalid.Newf("Only a build of Conda packages without a lock can be solved later")
	case digest.NewDigestFromEncoded(digest.SHA256, recipe.GetQueryDigest()).Validate() != nil:
		return fault.Invalid.Newf("The build does not name the query that it is solved from")
	case proto.Size(req.GetUnsolved()) > limits.BuildLock:
		return fault.Invalid.Newf("The build's query has %d bytes, and may have %d", proto.Size(req.GetUnsolved()), limits.BuildLock)
	}
	return nil
}

// ClaimUnsolvedBuilds returns builds whose packages the caller has to solve.
func (s *Service) ClaimUnsolvedBuilds(ctx context.Context, req *buildv1.ClaimUnsolvedBuildsRequest) (*buildv1.ClaimUnsolvedBuildsResponse, error) {
	now := s.deps.Now()
	limit := min(max(1, int(req.GetMax())), limits.UnsolvedClaims)
	claimed, err := s.store.ClaimUnsolved(ctx, limit, now, now.Add(claimTime))
	if err != nil {
		return nil, s.store.Fault("claiming builds to solve", err)
	}
	out := &buildv1.ClaimUnsolvedBuildsResponse{}
	for _, r := range claimed {
		out.Builds = append(out.Builds, &buildv1.UnsolvedBuild{
			BuildId: r.ID, Query: r.Request.GetUnsolved(), Identity: r.Request.GetIdentity(), ClientIp: r.Request.GetClientIp(),
			ListsAfter: r.Request.GetOutdated().GetNoticedAt(),
		})
	}
	return out, nil
}

// SolveBuild stores the lock of a build, ends the build, or postpones its solution.
func (s *Service) SolveBuild(ctx context.Context, req *buildv1.SolveBuildRequest) (*buildv1.SolveBuildResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	if rec.IsPending() && rec.Request.GetUnsolved() != nil {
		err = s.solved(ctx, rec, req)
	}
	return &buildv1.SolveBuildResponse{}, err
}

func (s *Service) solved(ctx context.Context, rec store.Record, req *buildv1.SolveBuildRequest) error {
	now := s.deps.Now()
	switch {
	case req.GetLock() != nil:
		return s.storeLock(ctx, rec, req)
	case req.GetMessage() != "":
		return s.failUnsolved(ctx, rec, req.GetMessage())
	case now.Sub(unsolvedSince(rec)) > limits.BuildUnsolved:
		return s.failUnsolved(ctx, rec, fmt.Sprintf("The packages could not be resolved within %s: %s", limits.BuildUnsolved, req.GetUnavailable()))
	}
	wait := min(max(5*time.Second, time.Duration(req.GetRetrySeconds())*time.Second), time.Minute)
	return s.faultOf("postponing a build", s.store.SolveLater(ctx, rec.ID, now.Add(wait)))
}

// unsolvedSince returns when a build began to wait for its lock.
func unsolvedSince(rec store.Record) time.Time {
	if o := rec.Request.GetOutdated(); o != nil {
		return o.GetNoticedAt().AsTime()
	}
	return rec.Created
}

// storeLock makes an unsolved build available to workers.
func (s *Service) storeLock(ctx context.Context, rec store.Record, req *buildv1.SolveBuildRequest) error {
	lock := req.GetLock()
	switch {
	case lockRecords(lock) == "":
		return fault.Invalid.Newf("The build's lock must be for one platform")
	case lock.GetPrivate() && rec.Request.GetScope() == "":
		return fault.Invalid.Newf("The build is shared, and its lock was read with a login")
	}
	if err := store.CheckLock(lock); err != nil {
		return s.failUnsolved(ctx, rec, "The lock is too large to be stored with the build")
	}
	next := proto.CloneOf(rec.Request)
	next.Unsolved, next.Preface = nil, req.GetPreface()
	next.Recipe.LockDigest = digest.FromString(lockRecords(lock)).Encoded()
	if old := next.GetOutdated(); old != nil {
		if old.GetLockDigest() == next.GetRecipe().GetLockDigest() { // the channel still lists the missing package
			return s.failOutdated(ctx, rec, old.GetMessage())
		}
		if err := s.logs.AppendLine(ctx, rec.ID, "solved-again", next.GetPreface()); err != nil {
			return err
		}
	}
	if _, err := s.store.Solve(ctx, rec.ID, next, lock); err != nil {
		return s.store.Fault("storing a build's lock", err)
	}
	wake(s.queued)
	return nil
}

// failUnsolved ends a build whose packages cannot be solved. Its log contains the reason.
func (s *Service) failUnsolved(ctx context.Context, rec store.Record, message string) error {
	if err := s.logs.Begin(ctx, rec.ID, "Conda: "+message); err != nil {
		return err
	}
	return s.fail(ctx, rec, reasonSolve, message)
}

// faultOf returns nil for nil, or else the fault of a database error.
func (s *Service) faultOf(doing string, err error) error {
	if err == nil {
		return nil
	}
	return s.store.Fault(doing, err)
}
