package container

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/containerd/platforms"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// lookForUnsolved is how often a worker looks for builds that another process left
// unsolved, or that must be retried.
const lookForUnsolved = 5 * time.Second

// SolveBuilds solves the packages of builds that were queued unsolved, until ctx ends.
// Several processes share the work through the claims of the build service: another one solves
// what this one had claimed.
func (s *Service) SolveBuilds(ctx context.Context) error {
	if s.deps.Build == nil || s.deps.Conda == nil {
		<-ctx.Done()
		return nil
	}
	var workers sync.WaitGroup
	for range limits.UnsolvedClaims {
		workers.Go(func() {
			for ctx.Err() == nil {
				if s.solveNext(ctx) {
					continue
				}
				select {
				case <-ctx.Done():
				case <-s.solver.woken:
				case <-time.After(lookForUnsolved):
				}
			}
		})
	}
	workers.Wait()
	return nil
}

// solveNext solves one build, and reports whether there was one.
func (s *Service) solveNext(ctx context.Context) bool {
	claimed, err := s.deps.Build.ClaimUnsolvedBuilds(ctx, &buildv1.ClaimUnsolvedBuildsRequest{Max: 1})
	if err != nil || len(claimed.GetBuilds()) == 0 {
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "Builds that wait to be solved cannot be read", "err", err)
		}
		return false
	}
	b := claimed.GetBuilds()[0]
	within, cancel := context.WithTimeout(ctx, limits.CondaTimeout+10*time.Second) // shorter than a claim
	defer cancel()
	if _, err := s.deps.Build.SolveBuild(within, s.solution(within, b)); err != nil && ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "A solved build was not stored; it is solved again", "build_id", b.GetBuildId(), "err", err)
	}
	return true
}

// solution solves the packages of a build.
func (s *Service) solution(ctx context.Context, b *buildv1.UnsolvedBuild) *buildv1.SolveBuildRequest {
	out := &buildv1.SolveBuildRequest{BuildId: b.GetBuildId()}
	ip, _ := netip.ParseAddr(b.GetClientIp()) // a user's build may have none
	ctx = rpc.WithCall(ctx, rpc.Call{ClientIP: ip, Background: true})
	within, cancel := context.WithTimeout(ctx, limits.CondaTimeout)
	defer cancel()
	solved, err := s.deps.Conda.SolvePackages(within, &condav1.SolvePackagesRequest{Lock: b.GetQuery(), Identity: b.GetIdentity(), ListsAfter: b.GetListsAfter()})
	if err != nil {
		s.unsolved(ctx, out, err)
		return out
	}
	if c := solved.GetAnswer(); c.GetConflict() != nil {
		out.Message = c.GetMessage()
		return out
	}
	if err := s.checkPackages(ctx, b.GetIdentity(), isLockQuery(b.GetQuery()), solved); err != nil {
		s.unsolved(ctx, out, err)
		return out
	}
	p, err := platforms.Parse(b.GetQuery().GetPlatforms()[0])
	if err != nil { // it was parsed when the build was requested
		out.Message = "The platform of the build is malformed"
		return out
	}
	lock := request.Locked{SolvePackagesResponse: solved}
	if b.GetListsAfter() != nil {
		lock.Renewed = "a channel does not have a package of the first lock any more"
	}
	out.Lock, out.Preface = lock.For(p)
	if out.Lock == nil {
		out.Message = "The lock does not have the platform of the build"
	}
	return out
}

// unsolved records why a build was not solved, permanently or temporarily.
func (s *Service) unsolved(ctx context.Context, out *buildv1.SolveBuildRequest, err error) {
	why, known := fault.As(err)
	final := errors.Is(err, fault.Invalid) || errors.Is(err, fault.NotFound) || errors.Is(err, fault.Denied)
	switch {
	case known && final:
		out.Message = why.Public
		return
	case known:
		out.Unavailable, out.RetrySeconds = why.Public, int32(why.RetryAfter.Seconds())
	default:
		out.Unavailable = "the solver did not finish in time"
	}
	s.deps.Log.InfoContext(ctx, "The packages of a build could not be solved; they are tried again", "build_id", out.GetBuildId(), "err", err)
}
