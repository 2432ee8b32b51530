package builder

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/oci"
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

// push sends the small first: a registry that takes nothing says so at once. The
// name comes last.
func (t *target) push(ctx context.Context, from *sourceImage, image oci.Image, job Job, out Output) error {
	if err := t.document(ctx, image.Config); err != nil {
		return err
	}
	for _, l := range from.layers {
		if isForeign(l) {
			out.Print("", fmt.Sprintf("%s stays where it is: it may not be copied", l.Digest))
			continue
		}
		how, err := t.copy(ctx, from, l)
		if err != nil {
			return err
		}
		out.Print("", fmt.Sprintf("%s %s, %d bytes", l.Digest, how, l.Size))
	}
	platform, err := oci.ParsePlatform(job.Recipe.GetPlatform())
	if err != nil {
		return err
	}
	if err := t.addLayers(ctx, job.Recipe.GetConfig(), platform); err != nil {
		return err
	}
	return t.manifest(ctx, t.ref, image.Manifest)
}

// copy brings a layer over, in the cheapest way that works, and says which it was.
func (t *target) copy(ctx context.Context, from *sourceImage, l ocispec.Descriptor) (how string, err error) {
	d := blobOf(l)
	if there, err := t.client.BlobHead(ctx, t.ref, d); err == nil {
		return "is there", there.Close()
	}
	if from.ref.Registry == t.ref.Registry && t.client.BlobMount(ctx, from.ref, t.ref, d) == nil {
		return "was mounted", nil
	}
	content, err := from.open(ctx, l)
	if err != nil {
		return "", err
	}
	defer content.Close()
	return "was copied", t.blob(ctx, d, content)
}
