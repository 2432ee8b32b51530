package builder

import (
	"context"

	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/oci"
)

// Layers streams the bytes of layers that came with requests.
// containerv1.ContainerServiceClient is one.
type Layers interface {
	GetLayer(ctx context.Context, req *containerv1.GetLayerRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[containerv1.GetLayerResponse], error)
}

// canApplyConfig says, before anything is built, whether a configuration can be put on
// top of an image here.
func (b *BuildKit) canApplyConfig(c *containerv1.ContainerConfig) error {
	if c != nil && b.o.Registries == nil {
		return &Failure{Internal, "This service's workers cannot put a configuration on top of a frozen image; leave containerConfig or freeze out", nil}
	}
	for _, l := range c.GetLayers() {
		if l.GetIncludedFrom() == nil && !isURL(l.GetLocation()) && b.o.Layers == nil {
			return &Failure{Internal, "This service's workers cannot reach layers that come with a request; give the layer's URL, or leave freeze out", nil}
		}
	}
	return nil
}

// bake puts what a frozen image is to hold on top of what the daemon has pushed,
// and returns the digest of the complete image. The daemon pushes such an image by
// its digest only: it gets its name when it is complete.
func (b *BuildKit) bake(ctx context.Context, job Job, l *logins, built string) (string, error) {
	to, err := b.o.target(ctx, job, l)
	if err != nil {
		return "", err
	}
	image, err := to.complete(ctx, job.Recipe, digest.Digest(built))
	return image.String(), to.failed(ctx, "The configuration could not be put on top of the image", err)
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
