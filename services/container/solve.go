package container

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/platforms"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// Images of Conda packages that were solved are put together of the packages themselves;
// what the request wants run is run on that. Which packages, and the base image's digest,
// decide such an image; how they were asked for does not. The same request stands for
// the same packages until its lock is forgotten (conda_lock_ttl): pipelines that are
// run again want the image that they had.

// foresee asks which packages a request stands for, before anything is queued, for as
// long as patience says. Where that is not known in time the build finds out
// (gateway/contract/container-service.md#solvable-packages).
func (s *Service) foresee(ctx context.Context, r request.Request, who *platformv1.Identity, patience time.Duration) request.Foreseen {
	if s.deps.Conda == nil || s.deps.CondaSolveWait == 0 || r.Recipe.Packages == nil {
		return request.Foreseen{}
	}
	if r.CanBeDirect() && !r.Raw.GetRefresh() {
		if known, ok := s.recall(ctx, r, caller.Of(who)); ok {
			return request.Foreseen{Solved: known.Lock, Base: known.Base}
		}
	}
	query := &condav1.LockQuery{Packages: r.Recipe.Packages}
	for _, p := range r.Platforms {
		query.Platforms = append(query.Platforms, platforms.Format(p))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := s.deps.Conda.SolvePackages(ctx, &condav1.SolvePackagesRequest{Lock: query, Identity: who})
	if err == nil {
		return request.Foresee(out, r.Recipe.IsBase)
	}
	if errors.Is(err, fault.Invalid) { // that is for who installs: it may read more than we do
		why, _ := fault.As(err)
		return request.Foreseen{Refused: why, Unknown: "Conda: the packages could not be resolved before the build; it resolves them itself, without a lock"}
	}
	s.deps.Log.WarnContext(ctx, "A request for Conda packages was not solved before its build", "err", err)
	if ctx.Err() != nil || errors.Is(err, fault.Timeout) {
		return request.Foreseen{Late: true, Unknown: fmt.Sprintf("Conda: the packages were not resolved within %s; the build resolves them itself, without a lock", patience)}
	}
	return request.Foreseen{Late: true, Unknown: "Conda: a channel could not be read before the build, which resolves the packages itself, without a lock"}
}

// isMade says whether an image is there, or being built: it stays, whatever became of
// its packages.
func (s *Service) isMade(ctx context.Context, b *buildv1.SubmitBuildRequest) bool {
	ask := proto.CloneOf(b)
	ask.DryRun = true
	made, err := s.deps.Build.SubmitBuild(ctx, ask)
	return err == nil && made.GetCached()
}

// putsPackages says whether a worker is there that puts packages together.
func (s *Service) putsPackages(ctx context.Context) bool {
	resp, err := s.deps.Build.ListEngines(ctx, &buildv1.ListEnginesRequest{})
	return err == nil && slices.ContainsFunc(resp.GetEngines(), func(e *buildv1.Engine) bool {
		return e.GetName() == "conda" && len(e.GetArchitectures()) > 0
	})
}

// recall looks for what the request stood for before.
func (s *Service) recall(ctx context.Context, r request.Request, who caller.ID) (store.Remembered, bool) {
	shared, own := r.LockIDs(who)
	known, err := s.store.LockOf(ctx, own, shared, s.deps.Now().Add(-s.deps.CondaLockTTL))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.deps.Log.WarnContext(ctx, "A remembered lock cannot be read; the packages are solved again", "err", err)
	}
	return known, err == nil
}

// remember keeps what a request stands for, now that an image is made of it. Where it
// cannot be kept, the next one is solved again.
func (s *Service) remember(ctx context.Context, r request.Request, who *platformv1.Identity) error {
	packed, err := sqldb.Pack(r.Foreseen.Solved)
	if err != nil {
		return err
	}
	if err := s.charge(ctx, who, storeCost(len(packed))); err != nil {
		return err
	}
	id, own := r.LockIDs(caller.Of(who))
	now := s.deps.Now()
	since := now.Add(-s.deps.CondaLockTTL)
	if r.Raw.GetRefresh() { // what the request stands for for others stays
		id, since = own, now
	}
	if r.Foreseen.Solved.GetPrivate() {
		id = own
	}
	if err := s.store.PutLock(ctx, id, packed, r.Recipe.BaseDigest, now, since); err != nil {
		s.deps.Log.WarnContext(ctx, "A lock was not remembered", "err", err)
	}
	return nil
}
