package buildkit

import (
	"context"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
)

// isIncomplete reports whether the worker changes the image that the daemon has pushed. The daemon
// then pushes it by digest only, and the worker pushes the tag.
func isIncomplete(job jobs.Job) bool {
	return job.Recipe.GetConfig() != nil || job.Recipe.GetSoci()
}

// canComplete checks, before the build, whether the recipe's configuration and SOCI index can be
// added to the image here.
func (b *Engine) canComplete(recipe *buildv1.Recipe) error {
	c := recipe.GetConfig()
	if c != nil && b.o.Registries == nil {
		return jobs.Internal.Failure("This service's workers cannot put a configuration on top of a frozen image; leave containerConfig or freeze out", nil)
	}
	if recipe.GetSoci() && b.o.Registries == nil {
		return jobs.Internal.Failure("This service's workers cannot add SOCI indexes; leave soci out", nil)
	}
	for _, l := range c.GetLayers() {
		if l.GetIncludedFrom() == nil && !remote.IsURL(l.GetLocation()) && b.o.Layers == nil {
			return jobs.Internal.Failure("This service's workers cannot reach layers that come with a request; give the layer's URL, or leave freeze out", nil)
		}
	}
	return nil
}

// complete applies a frozen image's configuration to the image that the daemon has pushed, adds its
// SOCI index, and pushes the tag. It returns the digest of the complete image.
func (b *Engine) complete(ctx context.Context, job jobs.Job, l *jobs.Logins, built string, out jobs.Output) (string, error) {
	to, err := b.o.Target(ctx, job, l)
	if err != nil {
		return "", err
	}
	image := digest.Digest(built)
	if job.Recipe.GetConfig() != nil {
		out.Print("", "Putting the configuration on top of the image")
		if image, err = to.Complete(ctx, job.Recipe, image); err != nil {
			return "", to.Failed(ctx, "The configuration could not be put on top of the image", err)
		}
	}
	if job.Recipe.GetSoci() {
		if image, err = to.Enable(ctx, job.Recipe, image, out); err != nil {
			return "", to.Failed(ctx, "The SOCI index could not be added to the image", err)
		}
	}
	return image.String(), nil
}
