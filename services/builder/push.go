package builder

import (
	"context"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/oci"
)

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

// complete pushes layers and configs, then the manifests, the named one last.
func (t *target) complete(ctx context.Context, recipe *buildv1.Recipe, built digest.Digest) (digest.Digest, error) {
	root, err := t.Registries.Manifest(ctx, t.repo, built.String(), t.access)
	if err != nil {
		return "", err
	}
	platform, err := oci.ParsePlatform(recipe.GetPlatform())
	if err != nil {
		return "", err
	}
	config := recipe.GetConfig()
	made, err := oci.Augment(ctx, t.Registries.Source(t.repo, t.access), root, oci.AdditionOf(config), platform)
	if err != nil {
		return "", err
	}
	if err := t.addLayers(ctx, config, platform); err != nil {
		return "", err
	}
	for _, img := range made.Images {
		if err := t.document(ctx, img.Config); err != nil {
			return "", err
		}
		if img.Manifest.Digest == made.Root.Digest {
			continue
		}
		if err := t.manifest(ctx, t.ref.SetDigest(img.Manifest.Digest.String()), img.Manifest); err != nil {
			return "", err
		}
	}
	return made.Root.Digest, t.manifest(ctx, t.ref, made.Root)
}
