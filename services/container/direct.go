package container

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// Images of Conda packages that were solved are put together of the packages
// themselves; what the request wants run is run on that. Which packages, and the base image's digest,
// decide such an image; how they were asked for does not. The same request stands for
// the same packages until its lock is forgotten (conda_lock_ttl): pipelines that are
// run again want the image that they had.

// canBeDirect says whether the packages can be put together, once they are known.
func (r request) canBeDirect() bool { return r.recipe.packages != nil }

// putsPackages says whether a worker is there that puts packages together.
func (s *Service) putsPackages(ctx context.Context) bool {
	resp, err := s.deps.Build.ListEngines(ctx, &buildv1.ListEnginesRequest{})
	return err == nil && slices.ContainsFunc(resp.GetEngines(), func(e *buildv1.Engine) bool {
		return e.GetName() == "conda" && len(e.GetArchitectures()) > 0
	})
}

// withoutSteps adds to the reason why nobody builds in steps what of a request for Conda
// packages needs it.
func (r request) withoutSteps(err error) error {
	why, ok := fault.As(err)
	if !ok || !errors.Is(err, fault.Unsupported) || r.recipe.steps == "" {
		return err
	}
	return fault.Unsupported.New(why.Public+". This request needs that because of "+r.recipe.steps+": without it, its packages are put into an image as they are", err)
}

// directly is the request, once it is known which packages on which base image it
// stands for.
func (r request) directly(base digest.Digest) request {
	recipe := *r.recipe
	recipe.baseDigest = base
	recipe.names = recipe.names.In(r.foreseen.solved.GetAnswer().GetLocks()[0].GetPackages())
	recipe.parts = recipe.afterwards.parts
	r.recipe = &recipe
	return r
}

// isDirect says whether the packages are put together, and not installed in steps.
func (r request) isDirect() bool { return r.recipe.baseDigest != "" }

// directMessage is the recipe as workers get it.
func (r request) directMessage(p ocispec.Platform, lock *condav1.SolvePackagesResponse) *buildv1.Recipe {
	sum := sha256.Sum256([]byte(lock.GetRecords()[0]))
	out := &buildv1.Recipe{
		Engine: "conda", Format: "oci", Platform: platforms.Format(p), CondaFile: r.recipe.condaFile, LockDigest: hex.EncodeToString(sum[:]),
		Source:        &containerv1.Source{Registry: r.recipe.base.Registry, Repository: r.recipe.base.Repository, Reference: r.recipe.baseDigest.String()},
		ContainerFile: r.recipe.afterwards.lines, Files: r.recipe.afterwards.files, Compression: compressionOf(r.raw),
		CondaOptions: r.raw.GetPackages().GetCondaOpts(),
	}
	if l := r.raw.GetBuildContext(); l.GetLocation() != "" && out.GetContainerFile() != "" {
		out.Context = layerWithoutContent(l)
	}
	if r.raw.GetFreeze() {
		out.Config = r.added()
	}
	return out
}

// lockIDs are what a request's lock is remembered under: for everybody, and for who
// reads channels with a login.
func (r request) lockIDs(who caller.ID) (shared, own string) {
	w := digester{sha256.New()}
	w.text("slipway lock", templateVersion, r.recipe.base.String())
	for _, p := range r.platforms {
		w.text(platforms.Format(p))
	}
	w.list(r.recipe.packages.GetChannels())
	w.list(r.recipe.packages.GetEntries())
	shared = hex.EncodeToString(w.Sum(nil))
	w.text(who.String())
	return shared, hex.EncodeToString(w.Sum(nil))
}

// recall looks for what the request stood for before.
func (s *Service) recall(ctx context.Context, r request, who caller.ID) (store.Remembered, bool) {
	shared, own := r.lockIDs(who)
	known, err := s.store.LockOf(ctx, own, shared, s.deps.Now().Add(-s.deps.CondaLockTTL))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.deps.Log.WarnContext(ctx, "A remembered lock cannot be read; the packages are solved again", "err", err)
	}
	return known, err == nil
}

// remember keeps what a request stands for, now that an image is made of it. Where it
// cannot be kept, the next one is solved again.
func (s *Service) remember(ctx context.Context, r request, who *platformv1.Identity) error {
	packed, err := sqldb.Pack(r.foreseen.solved)
	if err != nil {
		return err
	}
	if err := s.charge(ctx, who, storeCost(len(packed))); err != nil {
		return err
	}
	id, own := r.lockIDs(caller.Of(who))
	now := s.deps.Now()
	since := now.Add(-s.deps.CondaLockTTL)
	if r.raw.GetRefresh() { // what the request stands for for others stays
		id, since = own, now
	}
	if r.foreseen.solved.GetPrivate() {
		id = own
	}
	if err := s.store.PutLock(ctx, id, packed, r.recipe.baseDigest, now, since); err != nil {
		s.deps.Log.WarnContext(ctx, "A lock was not remembered", "err", err)
	}
	return nil
}
