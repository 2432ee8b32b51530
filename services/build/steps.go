package build

import (
	"context"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
)

// buildInSteps queues a build again whose engine found that something has to be run:
// for the alternative that was asked for with it. Where there is none, or nobody can
// build it, it is false, and the result ends the build and says why.
func (s *Service) buildInSteps(ctx context.Context, rec record, r *buildv1.Result) (goesOn bool, err error) {
	if !rec.isPending() || rec.delivery > int64(r.GetDelivery()) {
		return true, nil
	}
	next := proto.CloneOf(rec.request)
	next.Recipe, next.Alternative = next.GetAlternative(), nil
	if next.GetRecipe() == nil {
		return false, nil
	}
	if err := s.workers.able(capability{next.GetRecipe().GetEngine(), architecture(next.GetRecipe())}); err != nil {
		if e, ok := fault.As(err); ok {
			r.Message += ". " + e.Public
		}
		return false, nil
	}
	if err := s.store.reroute(ctx, rec.id, next); err != nil {
		return false, err
	}
	s.deps.Log.InfoContext(ctx, "A build goes on in steps", "build_id", rec.id, "engine", next.GetRecipe().GetEngine(), "why", r.GetMessage())
	wake(s.queued)
	return true, nil
}
