package container

import (
	"context"
	"errors"
	"slices"

	"github.com/containerd/platforms"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
)

// unsolvable asks which packages a request stands for, before anything is queued. The
// fault says why there is no such environment, and what there would be. It is nil where
// there is one, and where that is not known in time: then the build finds out
// (gateway/contract/container-service.md#solvable-packages).
func (s *Service) unsolvable(ctx context.Context, r request, who *platformv1.Identity) *fault.Error {
	if s.deps.Conda == nil || s.deps.CondaSolveWait == 0 || r.recipe.packages == nil {
		return nil
	}
	query := &condav1.LockQuery{Packages: r.recipe.packages}
	for _, p := range r.platforms {
		query.Platforms = append(query.Platforms, platforms.Format(p))
	}
	ctx, cancel := context.WithTimeout(ctx, s.deps.CondaSolveWait)
	defer cancel()
	out, err := s.deps.Conda.SolvePackages(ctx, &condav1.SolvePackagesRequest{Lock: query, Identity: who})
	if err != nil {
		if !errors.Is(err, fault.Invalid) { // that is for who installs: it may read more than we do
			s.deps.Log.WarnContext(ctx, "A request for Conda packages was not solved before its build", "err", err)
		}
		return nil
	}
	if answer := out.GetAnswer(); answer.GetConflict() != nil && !isOfMachine(answer.GetConflict().GetReasons()) {
		return fault.Invalid.New(answer.GetMessage(), nil)
	}
	return nil
}

// isOfMachine says whether a conflict has to do with the machine: what that has is
// known for sure only where the build runs.
func isOfMachine(reasons []*condav1.Reason) bool {
	return slices.ContainsFunc(reasons, func(r *condav1.Reason) bool {
		return r.GetKind() == "machine" || isOfMachine(r.GetBecause())
	})
}

// isMade says whether an image is there, or being built: it stays, whatever became of
// its packages.
func (s *Service) isMade(ctx context.Context, b *buildv1.SubmitBuildRequest) bool {
	ask := proto.CloneOf(b)
	ask.DryRun = true
	made, err := s.deps.Build.SubmitBuild(ctx, ask)
	return err == nil && made.GetCached()
}
