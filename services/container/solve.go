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
		known := s.solutionOf(ctx, r, of)
		if _, pending := known.solution.(request.Pending); pending && needsSolution(r, of) {
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
			return solved{packages: of, solution: s.solveWithin(ctx, r, of, limits.CondaTimeout, false)}, nil
		}
		of = next
	}
}

// needsSolution reports whether the build of packages depends on their solution.
func needsSolution(r request.Resolved, of request.Packages) bool {
	return r.Raw.GetRefresh() || of.HasFallback()
}

// solutionOf returns the stored solution of packages, or a new one. Packages that cannot be
// solved in time are pending: a busy solver does not change what is built.
func (s *Service) solutionOf(ctx context.Context, r request.Resolved, of request.Packages) solved {
	if s.deps.Conda == nil || of.Query == nil {
		return solved{packages: of, solution: of.Unsolved()}
	}
	if !r.Raw.GetRefresh() {
		if known, ok := s.storedSolution(ctx, r, of); ok {
			return known
		}
	}
	wait := s.deps.CondaSolveWait
	if needsSolution(r, of) {
		wait = max(wait, limits.CondaTimeout)
	}
	return solved{packages: of, solution: s.solveWithin(ctx, r, of, wait, of.HasFallback())}
}

// solveWithin solves packages. They are pending if that takes longer than wait. If brief is
// set, a conflict has no suggestions, which take long to find.
func (s *Service) solveWithin(ctx context.Context, r request.Resolved, of request.Packages, wait time.Duration, brief bool) request.Solution {
	if wait == 0 {
		return request.Pending{}
	}
	place, err := s.solver.awaited.TryAcquire(fairshare.Request{Client: caller.Of(r.Caller).Client(ctx)})
	if err != nil { // it is queued instead
		return request.Pending{}
	}
	defer place.Release()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	query := of.LockQuery(r.Platforms...)
	query.Refresh = r.Raw.GetRefresh()
	out, err := s.deps.Conda.SolvePackages(ctx, &condav1.SolvePackagesRequest{Lock: query, Identity: r.Caller, Brief: brief})
	if err == nil {
		return request.SolutionOf(out, r.Platforms, of.IsBase)
	}
	if why, ok := fault.As(err); ok && (errors.Is(why, fault.NotFound) || errors.Is(why, fault.Denied) || errors.Is(why, fault.Invalid)) { // caused by a channel or the packages
		return request.Conflict{Err: why.To(fault.Invalid)}
	}
	s.deps.Log.InfoContext(ctx, "A request for Conda packages is solved after it was queued", "err", err)
	return request.Pending{}
}
