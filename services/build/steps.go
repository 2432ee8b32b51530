package build

import (
	"context"
	"slices"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
)

// An image of Conda packages on which something has to run is built in two parts, by two
// engines and possibly on two machines: the packages are assembled and the image is pushed
// without a tag; then BuildKit runs the remaining steps on it and pushes the tag. Clients
// see one build.

// hasSteps reports whether the request already shows that steps have to run on the image of
// its packages.
func hasSteps(r *buildv1.Recipe) bool {
	return r.GetEngine() == engine.Conda && (r.GetContainerFile() != "" || len(r.GetFiles()) > 0)
}

// inSteps returns the requirements for the worker that runs the remaining steps of a recipe
// for Conda packages.
func inSteps(r *buildv1.Recipe) engine.Kind {
	return engine.KindOf(&buildv1.Recipe{Engine: engine.BuildKit, Platform: r.GetPlatform()})
}

// can checks whether workers can build a complete recipe. It returns fault.Unsupported with
// the reason if they cannot.
func (s *Service) can(ctx context.Context, r *buildv1.Recipe) error {
	if err := s.workers.Await(ctx, engine.KindOf(r)); err != nil || !hasSteps(r) {
		return err
	}
	return s.workers.Await(ctx, inSteps(r))
}

// buildInSteps queues a build for BuildKit after the engine conda found that steps have to
// run on the image that it pushed. It returns false if no worker can run them: then the
// result r ends the build, and its message has the reason.
func (s *Service) buildInSteps(ctx context.Context, rec store.Record, r *buildv1.Result) (continues bool, err error) {
	if !rec.IsPending() || rec.Delivery > int64(r.GetDelivery()) {
		return true, nil
	}
	recipe := rec.Request.GetRecipe()
	if recipe.GetEngine() != engine.Conda || digest.Digest(r.GetDigest()).Validate() != nil {
		return false, nil //nolint:nilerr // there is nothing to go on from, and the result says why there is no image
	}
	if err := s.workers.Able(inSteps(recipe)); err != nil {
		if e, ok := fault.As(err); ok {
			r.Message += ". " + e.Public
		}
		return false, nil
	}
	next := proto.CloneOf(rec.Request)
	next.Recipe, next.SubmittedRecipe = rest(rec.Request, r), recipe
	if changed, err := s.store.Reroute(ctx, rec.ID, next); err != nil || !changed {
		return err == nil, err
	}
	s.chargeMinutes(ctx, rec, minutesOf(rec, s.deps.Now()))
	s.deps.Log.InfoContext(ctx, "A build continues in steps", "build_id", rec.ID, "image", r.GetDigest(), "why", r.GetMessage())
	wake(s.queued)
	return true, nil
}

// rest returns the recipe of the remaining steps, which begins with the pushed image of the
// first part.
func rest(req *buildv1.SubmitBuildRequest, r *buildv1.Result) *buildv1.Recipe {
	out, to := proto.CloneOf(req.GetRecipe()), req.GetTarget()
	out.Engine, out.LockDigest = engine.BuildKit, ""
	out.Source = &containerv1.Source{Registry: to.GetRegistry(), Repository: to.GetRepository(), Reference: r.GetDigest()}
	out.ContainerFile = r.GetSteps().GetContainerFile() + out.GetContainerFile()
	out.Files = slices.Concat(out.GetFiles(), r.GetSteps().GetFiles())
	return out
}

// isRest reports whether a recipe begins with an image that the same build has pushed.
func isRest(r *buildv1.Recipe) bool { return r.GetEngine() == engine.BuildKit && r.GetSource() != nil }
