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

// An image of Conda packages of which something has to be run is made in two parts, by
// two engines, and maybe on two machines: the packages are put together, and the image
// is pushed without a name; then BuildKit runs the rest on it, and gives it the name.
// To everybody else it is one build.

// hasSteps says whether it is known from the request that steps have to be run on the
// image of its packages.
func hasSteps(r *buildv1.Recipe) bool {
	return r.GetEngine() == engine.Conda && (r.GetContainerFile() != "" || len(r.GetFiles()) > 0)
}

// inSteps is who makes the rest of a recipe for Conda packages.
func inSteps(r *buildv1.Recipe) engine.Kind {
	return engine.KindOf(&buildv1.Recipe{Engine: engine.BuildKit, Platform: r.GetPlatform()})
}

// can says whether somebody can make all of a recipe: fault.Unsupported, with the
// reason, where nobody can.
func (s *Service) can(r *buildv1.Recipe) error {
	if err := s.workers.Able(engine.KindOf(r)); err != nil || !hasSteps(r) {
		return err
	}
	return s.workers.Able(inSteps(r))
}

// buildInSteps queues a build again whose engine found that something has to be run on
// the image that it has pushed. Where nobody can run it it is false, and the result ends
// the build and says why.
func (s *Service) buildInSteps(ctx context.Context, rec store.Record, r *buildv1.Result) (goesOn bool, err error) {
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
	next.Recipe = rest(rec.Request, r)
	if err := s.store.Reroute(ctx, rec.ID, next); err != nil {
		return false, err
	}
	s.deps.Log.InfoContext(ctx, "A build goes on in steps", "build_id", rec.ID, "image", r.GetDigest(), "why", r.GetMessage())
	wake(s.queued)
	return true, nil
}

// rest is what is left to be made of a build, from what its first part has pushed.
func rest(req *buildv1.SubmitBuildRequest, r *buildv1.Result) *buildv1.Recipe {
	out, to := proto.CloneOf(req.GetRecipe()), req.GetTarget()
	out.Engine, out.LockDigest = engine.BuildKit, ""
	out.Source = &containerv1.Source{Registry: to.GetRegistry(), Repository: to.GetRepository(), Reference: r.GetDigest()}
	out.ContainerFile = r.GetSteps().GetContainerFile() + out.GetContainerFile()
	out.Files = slices.Concat(out.GetFiles(), r.GetSteps().GetFiles())
	return out
}

// isRest says whether a recipe goes on from what the same build has pushed before.
func isRest(r *buildv1.Recipe) bool { return r.GetEngine() == engine.BuildKit && r.GetSource() != nil }
