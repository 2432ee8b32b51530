// Package freeze is the engine that copies an image to a user's repository and applies a
// configuration to it. It stores nothing.
package freeze

import (
	"context"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
)

// Engine copies an image to a user's repository and applies a configuration to it. The
// layers stay the same, and those that the registry already has are not sent again.
type Engine struct{ o remote.Deps }

// New creates the engine.
func New(o remote.Deps) *Engine { return &Engine{o} }

// Name returns "freeze".
func (f *Engine) Name() string { return "freeze" }

// Architectures returns "any", since nothing of the image is run.
func (f *Engine) Architectures() []string { return []string{jobs.AnyArchitecture} }

// Problem returns "", since the engine has no requirements.
func (f *Engine) Problem() string { return "" }

// Run returns immediately.
func (f *Engine) Run(context.Context) error { return nil }

// Build copies the recipe's source. The same source and configuration produce the same
// digest. Without a configuration and a SOCI index that is the source's digest.
func (f *Engine) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	from, image, to, err := f.o.Open(ctx, job)
	if err != nil {
		return "", err
	}
	out.Print("push", "Copying "+from.Name+" to "+job.RepositoryName())
	pushed := image.Manifest.Digest
	err = to.Push(ctx, from, image, job, out)
	if err == nil && job.Recipe.GetSoci() {
		pushed, err = to.Enable(ctx, job.Recipe, pushed, out)
	}
	return pushed.String(), to.Failed(ctx, "The image could not be pushed to "+job.RepositoryName(), err)
}
