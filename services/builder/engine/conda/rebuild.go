package conda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/conda/packages/layering"
)

// Rebuild builds the image of a lock again and pushes nothing. It uses no layer that this or another
// worker or the registry has: it fetches every package, and creates every layer in a folder of its
// own, which it removes.
func (c *Engine) Rebuild(ctx context.Context, job jobs.Job, out jobs.Output) (jobs.Rebuilt, error) {
	records, err := c.lock(job)
	if err != nil {
		return jobs.Rebuilt{}, err
	}
	dir, err := os.MkdirTemp(c.scratch(), "rebuild-") // a killed worker removes it when it starts again
	if err != nil {
		return jobs.Rebuilt{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := layering.NewFolder(filepath.Join(dir, "layers"))
	if err != nil {
		return jobs.Rebuilt{}, err
	}
	l := c.o.Logins(job)
	from, err := c.source(ctx, job, l)
	if err != nil {
		return jobs.Rebuilt{}, err
	}
	logins, err := channels(l, ctx, job.PrivateChannels)
	if err != nil {
		return jobs.Rebuilt{}, fmt.Errorf("fetching the logins of channels: %w", err)
	}
	e := &environment{Engine: c, job: job, out: out, records: records, from: from, channelLogins: logins, store: store, isAlone: true}
	return e.again(ctx)
}

// again builds the image without pushing it.
func (e *environment) again(ctx context.Context) (jobs.Rebuilt, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m := e.layerBuilder(stop)
	packages, err := m.Packages(ctx, e.records)
	if cause := context.Cause(ctx); errors.As(cause, new(*jobs.Failure)) { // the packages are too large: see layerBuilder
		return jobs.Rebuilt{}, cause
	}
	if err != nil {
		return jobs.Rebuilt{}, asFailure(err)
	}
	if isStandalone(e.job) {
		a, err := e.standalone(ctx, m, packages)
		return jobs.Rebuilt{Manifest: a.Manifest.Bytes, Config: a.Config.Bytes}, err
	}
	layers, err := m.Layers(ctx, e.records, packages)
	if err != nil {
		return jobs.Rebuilt{}, asFailure(err)
	}
	image, err := e.image(ctx, packages, layers)
	if err == nil {
		image, err = e.configured(ctx, image)
	}
	if err == nil {
		image, _, err = e.withSoci(ctx, m, packages, image)
	}
	if err != nil {
		return jobs.Rebuilt{}, err
	}
	return jobs.Rebuilt{Manifest: image.Manifest.Bytes, Config: image.Image.Config.Bytes}, nil
}
