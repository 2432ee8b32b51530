// Package freeze is the engine that copies an image to a repository of the user's, with
// a configuration on top. It keeps nothing.
package freeze

import (
	"context"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
)

// Engine copies an image to a repository of the user's, with a configuration on
// top: an image of the same layers. What the registry has is not sent again.
type Engine struct{ o remote.Deps }

// New makes the engine.
func New(o remote.Deps) *Engine { return &Engine{o} }

// Name is "freeze".
func (f *Engine) Name() string { return "freeze" }

// Architectures is "any": nothing of the image is run.
func (f *Engine) Architectures() []string { return []string{jobs.AnyArchitecture} }

// Problem is "": it needs nothing.
func (f *Engine) Problem() string { return "" }

// Run has nothing to keep ready.
func (f *Engine) Run(context.Context) error { return nil }

// Build copies the recipe's source. The same source and configuration give the same
// digest; without a configuration it is the source's own.
func (f *Engine) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	from, image, to, err := f.o.Open(ctx, job)
	if err != nil {
		return "", err
	}
	out.Print("push", "Copying "+from.Name+" to "+job.Place())
	err = to.Push(ctx, from, image, job, out)
	return image.Manifest.Digest.String(), to.Failed(ctx, "The image could not be pushed to "+job.Place(), err)
}
