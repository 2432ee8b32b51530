package builder

import (
	"context"
)

// Freeze copies an image to a repository of the user's, with a configuration on
// top: an image of the same layers. What the registry has is not sent again.
type Freeze struct{ o RegistryDeps }

// NewFreeze makes the engine.
func NewFreeze(o RegistryDeps) *Freeze { return &Freeze{o} }

// Name is "freeze".
func (f *Freeze) Name() string { return "freeze" }

// Architectures is "any": nothing of the image is run.
func (f *Freeze) Architectures() []string { return []string{anyArchitecture} }

// Problem is "": it needs nothing.
func (f *Freeze) Problem() string { return "" }

// Run has nothing to keep ready.
func (f *Freeze) Run(context.Context) error { return nil }

// Build copies the recipe's source. The same source and configuration give the same
// digest; without a configuration it is the source's own.
func (f *Freeze) Build(ctx context.Context, job Job, out Output) (string, error) {
	from, image, to, err := f.o.open(ctx, job)
	if err != nil {
		return "", err
	}
	out.Print("push", "Copying "+from.name+" to "+job.place())
	err = to.push(ctx, from, image, job, out)
	return image.Manifest.Digest.String(), to.failed(ctx, "The image could not be pushed to "+job.place(), err)
}
