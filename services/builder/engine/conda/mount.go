package conda

import (
	"context"
	"errors"
	"fmt"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// cannotMount returns the failure of a build whose image requires steps.
func cannotMount(why string) error {
	return jobs.Build.Failure(why+". The steps add files that are in no package, so that the environment cannot be mounted; request it without mount", nil)
}

// A mountable is the artifact with which an environment is mounted, and the blobs of its packages.
type mountable struct {
	layering.Mountable
	blobs []layering.Package
}

// withMount returns the artifact with which the environment of an image is mounted; nil if the recipe
// requires none.
func (e *environment) withMount(ctx context.Context, m *layering.Builder, packages []layering.Package, image layering.Image) (*mountable, error) {
	if !e.job.Recipe.GetMount() {
		return nil, nil //nolint:nilnil // there is no artifact
	}
	built, missing := 0, 0
	known := func(there, n int) {
		missing = n
		e.out.Print("mount", fmt.Sprintf("%d of %d packages exist as blobs to mount", there, there+n))
	}
	blobs, err := m.Blobs(ctx, e.records, packages, known, func(rec spec.Record, p layering.Package) {
		built++
		e.out.Print("", fmt.Sprintf("%d of %d: %s %s %s, %s", built, missing, rec.Name, rec.Version, rec.Build, megabytes(p.Size)))
	})
	if err != nil {
		return nil, asBuildError(err)
	}
	a, err := m.Mountable(ctx, e.records, blobs, image)
	if err != nil {
		return nil, e.notMountable(ctx, err)
	}
	return &mountable{a, blobs}, nil
}

// pushMountable pushes the artifact of an image whose layers are pushed; nil for none.
func (e *environment) pushMountable(ctx context.Context, m *layering.Builder, to *repository, a *mountable) error {
	if a == nil {
		return nil
	}
	return e.pushBlobs(ctx, m, to, a, false)
}

// pushBlobs pushes an artifact and its blobs, with the tag of the target if it is named.
func (e *environment) pushBlobs(ctx context.Context, m *layering.Builder, to *repository, a *mountable, named bool) error {
	sent, err := m.PushMountable(ctx, to, a.Mountable, named)
	if errors.Is(err, layering.ErrEvicted) {
		return fmt.Errorf("%w: %w", errLayerEvicted, err)
	}
	if err != nil {
		return e.to.Failed(ctx, "The index with which the environment is mounted could not be pushed", err)
	}
	if e.job.Environment != nil {
		e.job.Environment(a.Manifest.Digest.String())
	}
	m.NoteBlobs(ctx, e.records, a.blobs)
	e.out.Print("", fmt.Sprintf("The environment can be mounted: %s of index, %s of packages sent", megabytes(int64(len(a.Index.Bytes))), megabytes(sent)))
	return nil
}

// notMountable returns the failure for an error about an index: of the packages, of lost blobs, or
// else of the target.
func (e *environment) notMountable(ctx context.Context, err error) error {
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Invalid) {
		return asBuildError(err)
	}
	return e.to.Failed(ctx, "The blobs of packages could not be read", err)
}
