package build

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
)

// A channel may delete or replace a package after it was solved. The packages of such a
// build are solved again, once, from package lists that are newer than the failure. A lock
// that the caller provided is never solved again: the build fails, and the message names
// the package.

// solveAgain returns a build to the state in which it waits for a lock. continues is false if
// the result ends the build.
func (s *Service) solveAgain(ctx context.Context, rec store.Record, r *buildv1.Result) (continues bool, err error) {
	if !rec.IsPending() || rec.Delivery > int64(r.GetDelivery()) {
		return true, nil
	}
	req := rec.Request
	if req.GetRecipe().GetEngine() != engine.Conda || req.GetSolvedFrom() == nil || req.GetOutdated() != nil {
		return false, s.noteFailure(ctx, rec, r.GetReason(), r.GetMessage())
	}
	next := proto.CloneOf(req)
	next.Outdated = &buildv1.Outdated{Message: r.GetMessage(), NoticedAt: timestamppb.New(s.deps.Now()), LockDigest: req.GetRecipe().GetLockDigest()}
	next.Unsolved, next.Recipe.LockDigest = req.GetSolvedFrom(), ""
	if err := s.logs.AppendLine(ctx, rec.ID, "outdated", r.GetMessage()+". The packages are resolved again"); err != nil {
		return false, err
	}
	if changed, err := s.store.Unsolve(ctx, rec.ID, next, s.deps.Now()); err != nil || !changed {
		return err == nil, err
	}
	s.chargeMinutes(ctx, rec, minutesOf(rec, s.deps.Now()))
	s.deps.Log.WarnContext(ctx, "The channel no longer has a package of the lock; the packages are solved again", "build_id", rec.ID, "why", r.GetMessage())
	return true, s.queue.Remove(ctx, rec)
}

// noteFailure writes the failure to the build's log. For an outdated lock the worker does not,
// because the build may continue.
func (s *Service) noteFailure(ctx context.Context, rec store.Record, reason, message string) error {
	first, _, _ := strings.Cut(message, "\n")
	return s.logs.AppendLine(ctx, rec.ID, "failed", "The build failed ("+reason+"): "+strings.TrimSuffix(first, ":"))
}

// failOutdated ends a build for which solving again returned the same lock.
func (s *Service) failOutdated(ctx context.Context, rec store.Record, message string) error {
	const reason = "build"
	message = strings.TrimSuffix(message, "; lock the environment again") + "; the channel still lists it: exclude that version, or use another channel"
	if err := s.noteFailure(ctx, rec, reason, message); err != nil {
		return err
	}
	return s.fail(ctx, rec, reason, message)
}

// isOutdated reports whether a build cannot be reused for req: its packages were solved again,
// but req requires the original lock.
func isOutdated(made store.Record, req *buildv1.SubmitBuildRequest) bool {
	return made.Request.GetOutdated() != nil && req.GetSolvedFrom() == nil
}
