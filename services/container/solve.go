package container

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// foreseen is what is known of a request's Conda packages before its build. The zero
// value is of a request that was not solved.
type foreseen struct {
	// conflict says why there is no such environment; nil where there is one, and where
	// that is not known.
	conflict *fault.Error
	// solved are the packages, for each platform; nil where they are not known.
	solved *condav1.SolvePackagesResponse
	// unknown says, in a line for the build's log, why they are not.
	unknown string
}

// foresee asks which packages a request stands for, before anything is queued. Where
// that is not known in time the build finds out
// (gateway/contract/container-service.md#solvable-packages).
func (s *Service) foresee(ctx context.Context, r request, who *platformv1.Identity) foreseen {
	if s.deps.Conda == nil || s.deps.CondaSolveWait == 0 || r.recipe.packages == nil {
		return foreseen{}
	}
	query := &condav1.LockQuery{Packages: r.recipe.packages}
	for _, p := range r.platforms {
		query.Platforms = append(query.Platforms, platforms.Format(p))
	}
	ctx, cancel := context.WithTimeout(ctx, s.deps.CondaSolveWait)
	defer cancel()
	out, err := s.deps.Conda.SolvePackages(ctx, &condav1.SolvePackagesRequest{Lock: query, Identity: who})
	if err == nil {
		return foreseenIn(out)
	}
	if errors.Is(err, fault.Invalid) { // that is for who installs: it may read more than we do
		return foreseen{unknown: "Conda: the packages could not be resolved before the build; it resolves them itself, without a lock"}
	}
	s.deps.Log.WarnContext(ctx, "A request for Conda packages was not solved before its build", "err", err)
	if ctx.Err() != nil || errors.Is(err, fault.Timeout) {
		return foreseen{unknown: fmt.Sprintf("Conda: the packages were not resolved within %s; the build resolves them itself, without a lock", s.deps.CondaSolveWait)}
	}
	return foreseen{unknown: "Conda: a channel could not be read before the build, which resolves the packages itself, without a lock"}
}

// foreseenIn reads the solver's answer.
func foreseenIn(out *condav1.SolvePackagesResponse) foreseen {
	switch answer := out.GetAnswer(); {
	case answer.GetConflict() != nil && isOfMachine(answer.GetConflict().GetReasons()):
		return foreseen{unknown: "Conda: whether the packages fit depends on the machine that builds, which resolves them itself, without a lock"}
	case answer.GetConflict() != nil:
		return foreseen{conflict: fault.Invalid.New(answer.GetMessage(), nil)}
	case out.GetPrivate(): // whoever knows the build's id could read it
		return foreseen{unknown: "Conda: no lock is kept with the build, since a channel was read with a login"}
	case proto.Size(out) > limits.BuildLock:
		return foreseen{unknown: "Conda: the lock is too large to be kept with the build"}
	}
	return foreseen{solved: out}
}

// of is what is kept with the build for a platform: its lock, nil for none, and the
// line that its log begins with.
func (f foreseen) of(p ocispec.Platform) (lock *condav1.SolvePackagesResponse, preface string) {
	locks := f.solved.GetAnswer().GetLocks()
	i := slices.IndexFunc(locks, func(l *condav1.PlatformLock) bool { return l.GetPlatform() == p.OS+"/"+p.Architecture })
	if i < 0 || i >= len(f.solved.GetRecords()) || i >= len(f.solved.GetSubdirs()) {
		return nil, f.unknown
	}
	lock = &condav1.SolvePackagesResponse{
		Answer:  &condav1.LockPackagesResponse{Locks: locks[i : i+1]},
		Records: f.solved.GetRecords()[i : i+1], Subdirs: f.solved.GetSubdirs()[i : i+1], Channels: f.solved.GetChannels(),
	}
	return lock, fmt.Sprintf("Conda: resolved to %d packages, %.1f MB to download; the lock of the build lists them", len(locks[i].GetPackages()), locks[i].GetSize()/1e6)
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
