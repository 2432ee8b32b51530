package container

import (
	"context"
	"errors"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A stored lock names its packages and its base image by digest. An existing image is
// served even if these do not exist any more. A new image is not built from a base image that
// no longer exists, or from packages with which a build has failed: then the packages are
// solved again, for all callers, with the image that the tag of the base currently names.

// outdatedError is returned when an image cannot be built from a stored lock.
type outdatedError struct {
	// why completes the sentence "They were resolved again, since …".
	why string
	// ownOnly is set if the reason only concerns the caller, so that the lock of others is
	// unchanged.
	ownOnly bool
}

func (e *outdatedError) Error() string { return "the stored lock is outdated: " + e.why }

// startStored starts a build from a stored lock. If the image does not exist, it first checks
// that the lock can still be used, and returns an outdatedError if it cannot.
func (s *Service) startStored(ctx context.Context, r request.Resolved, known solved, b *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	found, err := s.lookUp(ctx, b)
	if err != nil || found.GetCached() {
		return found, err
	}
	if old := s.outdated(ctx, r, known, found.GetLastFailure()); old != nil {
		return nil, old
	}
	if b.GetDryRun() {
		return found, nil
	}
	return s.startBuild(ctx, b)
}

// outdated returns why a stored lock cannot be used for a build; nil if it can. failure is
// the reason code of the newest build of the same image, if that failed.
func (s *Service) outdated(ctx context.Context, r request.Resolved, known solved, failure string) *outdatedError {
	if failure == "build" { // a push, a timeout or a cancellation is not caused by the lock
		return &outdatedError{why: "the image could not be built of the lock that was stored for this request", ownOnly: known.packages.Steps != ""}
	}
	if r.IsEnvironment() {
		return nil
	}
	base := known.packages.Base
	if _, issued := r.Issued[base]; issued || s.deps.owns(base.Registry, base.Repository) {
		return nil
	}
	pinned := at(base, known.base)
	access, err := s.deps.Keychain.Access(ctx, caller.Of(r.Caller), base.Registry, base.Repository)
	if err == nil {
		err = s.sources.Check(ctx, access, pinned)
	}
	if errors.Is(err, fault.NotFound) {
		s.sources.Forget(access, base) // its tag names another image now, or none
		return &outdatedError{why: "the base image of the lock that was stored for this request, " + pinned.String() + ", does not exist any more"}
	}
	return nil // the build reports any other failure
}

// renewed solves packages whose stored lock is outdated.
func (s *Service) renewed(ctx context.Context, r request.Resolved, known solved, old *outdatedError) (solved, error) {
	wait := s.deps.CondaSolveWait
	if s.needsChecked(known.packages) {
		wait = max(wait, limits.CondaTimeout)
	}
	solution, err := s.solveWithin(ctx, r, known.packages, wait, false)
	if err != nil {
		return known, err
	}
	if _, pending := solution.(request.Pending); pending && s.needsChecked(known.packages) {
		return known, request.NotSolved(solution, "")
	}
	out := solved{packages: known.packages, lockID: known.lockID, solution: solution}
	if lock, ok := out.solution.(*request.Locked); ok {
		out.solution = &request.Locked{SolvePackagesResponse: lock.SolvePackagesResponse, Renewed: old.why}
	}
	if old.ownOnly {
		_, out.lockID = r.LockIDs(known.packages, caller.Of(r.Caller))
	}
	s.deps.Log.InfoContext(ctx, "A stored lock is outdated; the packages are solved again", "err", old)
	return out, nil
}
