package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// foreseen is what is known of a request's Conda packages before its build. The zero
// value is of a request that was not solved.
type foreseen struct {
	// conflict says why there is no such environment; nil where there is one, and where
	// that is not known.
	conflict *fault.Error
	// refused is what this service says against the packages, where who installs them may
	// know better; nil where it says nothing. It counts where nobody installs.
	refused *fault.Error
	// solved are the packages, for each platform; nil where they are not known.
	solved *condav1.SolvePackagesResponse
	// base is the digest of the base image, where the request is remembered; "" otherwise.
	base digest.Digest
	// late says that the packages may be known a moment later.
	late bool
	// unknown says, in a line for the build's log, why they are not.
	unknown string
}

// foresee asks which packages a request stands for, before anything is queued, for as
// long as patience says. Where that is not known in time the build finds out
// (gateway/contract/container-service.md#solvable-packages).
func (s *Service) foresee(ctx context.Context, r request, who *platformv1.Identity, patience time.Duration) foreseen {
	if s.deps.Conda == nil || s.deps.CondaSolveWait == 0 || r.recipe.packages == nil {
		return foreseen{}
	}
	if r.canBeDirect() && !r.raw.GetRefresh() {
		if known, ok := s.recall(ctx, r, caller.Of(who)); ok {
			return foreseen{solved: known.Lock, base: known.Base}
		}
	}
	query := &condav1.LockQuery{Packages: r.recipe.packages}
	for _, p := range r.platforms {
		query.Platforms = append(query.Platforms, platforms.Format(p))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := s.deps.Conda.SolvePackages(ctx, &condav1.SolvePackagesRequest{Lock: query, Identity: who})
	if err == nil {
		return foreseenIn(out, r.recipe.isBase)
	}
	if errors.Is(err, fault.Invalid) { // that is for who installs: it may read more than we do
		why, _ := fault.As(err)
		return foreseen{refused: why, unknown: "Conda: the packages could not be resolved before the build; it resolves them itself, without a lock"}
	}
	s.deps.Log.WarnContext(ctx, "A request for Conda packages was not solved before its build", "err", err)
	if ctx.Err() != nil || errors.Is(err, fault.Timeout) {
		return foreseen{late: true, unknown: fmt.Sprintf("Conda: the packages were not resolved within %s; the build resolves them itself, without a lock", patience)}
	}
	return foreseen{late: true, unknown: "Conda: a channel could not be read before the build, which resolves the packages itself, without a lock"}
}

// foreseenIn reads the solver's answer. isBase says whether a package is one that every
// environment gets.
func foreseenIn(out *condav1.SolvePackagesResponse, isBase func(string) bool) foreseen {
	switch answer := out.GetAnswer(); {
	case answer.GetConflict() != nil && isOfMachine(answer.GetConflict().GetReasons()):
		return foreseen{refused: fault.Invalid.New(answer.GetMessage(), nil), unknown: "Conda: whether the packages fit depends on the machine that builds, which resolves them itself, without a lock"}
	case answer.GetConflict() != nil:
		return foreseen{conflict: fault.Invalid.New(answer.GetMessage()+adviceOnBase(answer, isBase), nil)}
	case proto.Size(out) > limits.BuildLock:
		return foreseen{unknown: "Conda: the lock is too large to be kept with the build"}
	}
	return foreseen{solved: out}
}

// before is what is said of a request that nobody here can build: what the solver says
// against its packages comes before that. Any other error stays.
func (f foreseen) before(err error) error {
	switch {
	case !errors.Is(err, fault.Unsupported):
		return err
	case f.conflict != nil:
		return f.conflict
	case f.refused != nil:
		return f.refused
	}
	return err
}

// adviceOnBase says how to go without a package that nobody asked for, where that is what
// cannot be; "" elsewhere.
func adviceOnBase(answer *condav1.LockPackagesResponse, isBase func(string) bool) string {
	involved := slices.Clone(answer.GetConflict().GetSpecs())
	for _, m := range answer.GetConflict().GetMissing() {
		involved = append(involved, m.GetName())
	}
	at := slices.IndexFunc(involved, isBase)
	if at < 0 {
		return ""
	}
	advice := fmt.Sprintf("\n- %s is a base package, which every environment gets: name others, or none, in packages.condaOpts.basePackages (slipway conda --base-packages=)", fault.Quote(involved[at]))
	if len(answer.GetSuggestions()) == 0 {
		advice = "\nWhat would work:" + advice
	}
	return advice
}

// isFor says whether the packages are known for all of some platforms.
func (f foreseen) isFor(all []ocispec.Platform) bool {
	for _, p := range all {
		if f.position(p) < 0 {
			return false
		}
	}
	return true
}

// position is where the lock for a platform stands; -1 for nowhere.
func (f foreseen) position(p ocispec.Platform) int {
	locks := f.solved.GetAnswer().GetLocks()
	i := slices.IndexFunc(locks, func(l *condav1.PlatformLock) bool { return l.GetPlatform() == p.OS+"/"+p.Architecture })
	if i >= len(f.solved.GetRecords()) || i >= len(f.solved.GetSubdirs()) {
		return -1
	}
	return i
}

// of is what is kept with the build for a platform: its lock, nil for none, and the
// line that its log begins with. direct says that the image is made of the lock.
func (f foreseen) of(p ocispec.Platform, direct bool) (lock *condav1.SolvePackagesResponse, preface string) {
	i := f.position(p)
	switch {
	case i < 0:
		return nil, f.unknown
	case f.solved.GetPrivate() && !direct: // whoever knows the build's id could read it
		return nil, "Conda: no lock is kept with the build, since a channel was read with a login"
	}
	of := f.solved.GetAnswer().GetLocks()[i]
	lock = &condav1.SolvePackagesResponse{
		Answer:  &condav1.LockPackagesResponse{Locks: []*condav1.PlatformLock{of}},
		Records: f.solved.GetRecords()[i : i+1], Subdirs: f.solved.GetSubdirs()[i : i+1], Channels: f.solved.GetChannels(),
		Private: f.solved.GetPrivate(), PrivateChannels: f.solved.GetPrivateChannels(),
	}
	return lock, fmt.Sprintf("Conda: resolved to %d packages, %.1f MB to download; the lock of the build lists them", len(of.GetPackages()), of.GetSize()/1e6)
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
