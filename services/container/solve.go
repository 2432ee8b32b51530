package container

import (
	"context"
	"errors"
	"time"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// solve returns the solution of a request's packages, as far as it is known before the build.
// R packages whose Conda packages are in a conflict are built from source if the request
// allows it.
func (s *Service) solve(ctx context.Context, r request.Resolved) (solved, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.CondaTimeout+time.Second)
	defer cancel()
	for of := *r.Packages; ; {
		known, err := s.solutionOf(ctx, r, of)
		if err != nil {
			return known, err
		}
		if _, pending := known.solution.(request.Pending); pending && s.needsSolution(r, of) {
			return known, request.NotSolved(known.solution, "")
		}
		conflict, ok := known.solution.(request.Conflict)
		if !ok || !of.HasFallback() {
			return known, nil
		}
		next, ok, err := r.FromSource(of, conflict)
		if err != nil {
			return known, err
		}
		if !ok {
			solution, err := s.solveWithin(ctx, r, of, limits.CondaTimeout, false)
			return solved{packages: of, solution: solution}, err
		}
		if err := s.deps.Policy.Channels(ctx, "packages", next.ChannelNames()); err != nil { // CRAN
			return known, err
		}
		of = next
	}
}

// needsSolution reports whether the build of packages depends on their solution, or a rule of the
// operator does.
func (s *Service) needsSolution(r request.Resolved, of request.Packages) bool {
	return r.Raw.GetRefresh() || r.Raw.GetKeep() || of.HasFallback() || s.needsChecked(of)
}

// solutionOf returns the stored solution of packages, or a new one. Packages that cannot be
// solved in time are pending: a busy solver does not change what is built.
func (s *Service) solutionOf(ctx context.Context, r request.Resolved, of request.Packages) (solved, error) {
	if s.deps.Conda == nil || of.Query == nil {
		return solved{packages: of, solution: of.Unsolved()}, nil
	}
	replaced := "" // the ID of a stored lock that violates a rule
	if !r.Raw.GetRefresh() {
		if known, ok := s.storedSolution(ctx, r, of); ok {
			lock, isSolved := known.solution.(*request.Locked)
			if isSolved {
				permitted, err := s.storedPermitted(ctx, r.Caller, lock.SolvePackagesResponse)
				if err != nil {
					return known, err
				}
				if permitted {
					return known, s.checkPackages(ctx, r.Caller, of.IsLocked(), lock.SolvePackagesResponse)
				}
			}
			if !isSolved && !s.needsChecked(of) {
				return known, nil
			}
			replaced = known.lockID
		}
	}
	wait := s.deps.CondaSolveWait
	if s.needsSolution(r, of) {
		wait = max(wait, limits.CondaTimeout)
	}
	solution, err := s.solveWithin(ctx, r, of, wait, of.HasFallback())
	return solved{packages: of, solution: solution, lockID: replaced}, err
}

// solveWithin solves packages. They are pending if that takes longer than wait. If brief is
// set, a conflict has no suggestions, which take long to find. It returns fault.Denied if the packages
// violate a rule of the operator.
func (s *Service) solveWithin(ctx context.Context, r request.Resolved, of request.Packages, wait time.Duration, brief bool) (request.Solution, error) {
	if wait == 0 {
		return request.Pending{}, nil
	}
	place, err := s.solver.awaited.TryAcquire(fairshare.Request{Client: caller.Of(r.Caller).Client(ctx)})
	if err != nil { // it is queued instead
		return request.Pending{}, nil
	}
	defer place.Release()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	query := of.LockQuery(r.Platforms...)
	query.Refresh = r.Raw.GetRefresh()
	out, err := s.deps.Conda.SolvePackages(ctx, &condav1.SolvePackagesRequest{Lock: query, Identity: r.Caller, Brief: brief})
	if err == nil {
		if err := s.checkPackages(ctx, r.Caller, of.IsLocked(), out); err != nil {
			return request.Pending{}, err
		}
		s.countConflict(ctx, out)
		return request.SolutionOf(out, r.Platforms, of.IsBase), nil
	}
	if why, ok := fault.As(err); ok && (errors.Is(why, fault.NotFound) || errors.Is(why, fault.Denied) || errors.Is(why, fault.Invalid)) { // caused by a channel or the packages
		return request.Conflict{Err: why.To(fault.Invalid)}, nil
	}
	s.deps.Log.InfoContext(ctx, "A request for Conda packages is solved after it was queued", "err", err)
	return request.Pending{}, nil
}
