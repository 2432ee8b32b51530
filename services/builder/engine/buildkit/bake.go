package buildkit

import (
	"context"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
)

// canApplyConfig checks, before the build, whether a configuration can be applied to an
// image here.
func (b *Engine) canApplyConfig(c *containerv1.ContainerConfig) error {
	if c != nil && b.o.Registries == nil {
		return jobs.Internal.Failure("This service's workers cannot put a configuration on top of a frozen image; leave containerConfig or freeze out", nil)
	}
	for _, l := range c.GetLayers() {
		if l.GetIncludedFrom() == nil && !remote.IsURL(l.GetLocation()) && b.o.Layers == nil {
			return jobs.Internal.Failure("This service's workers cannot reach layers that come with a request; give the layer's URL, or leave freeze out", nil)
		}
	}
	return nil
}

// bake applies a frozen image's configuration to the image that the daemon has pushed, and
// returns the digest of the complete image. The daemon pushes such an image by digest only;
// the tag is pushed when it is complete.
func (b *Engine) bake(ctx context.Context, job jobs.Job, l *jobs.Logins, built string) (string, error) {
	to, err := b.o.Target(ctx, job, l)
	if err != nil {
		return "", err
	}
	image, err := to.Complete(ctx, job.Recipe, digest.Digest(built))
	return image.String(), to.Failed(ctx, "The configuration could not be put on top of the image", err)
}
