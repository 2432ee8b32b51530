package build

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
)

// checkParts validates the builds whose images a build uses.
func checkParts(req *buildv1.SubmitBuildRequest) error {
	t := req.GetTarget()
	if !isIndex(req) && (req.GetRecipe().GetEngine() != engine.Sif || len(req.GetParts()) != 1) {
		return fault.Invalid.Newf("Only an index or a Singularity image can use the images of other builds")
	}
	for _, part := range req.GetParts() {
		of := part.GetTarget()
		// The repositories of a Singularity image and its container image may differ, because
		// only one of them may be private to its caller.
		if len(part.GetParts()) > 0 || of.GetRegistry() != t.GetRegistry() || isIndex(req) && of.GetRepository() != t.GetRepository() {
			return fault.Invalid.Newf("The parts of a build are images at one registry, and those of an index in one repository")
		}
	}
	return nil
}

// admitParts submits the builds whose images a build uses, and queues the build. It returns
// nil if another request was faster. New builds of parts are charged. The build itself is
// only charged if it is a Singularity image and no part had to be queued.
func (s *Service) admitParts(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	if !isIndex(req) {
		if err := s.workers.Await(ctx, engine.KindOf(req.GetRecipe())); err != nil {
			return nil, err
		}
	}
	parent, charged := proto.CloneOf(req), !isIndex(req)
	parent.Parts = nil
	for _, part := range req.GetParts() {
		resp, err := s.SubmitBuild(ctx, part)
		if err != nil {
			return nil, err
		}
		parent.PartIds = append(parent.PartIds, resp.GetBuildId())
		charged = charged && resp.GetCached()
	}
	rec, err := s.newRecord(ctx, parent)
	if err != nil {
		return nil, err
	}
	refund := func() {}
	if charged {
		if refund, err = s.charge(ctx, rec); err != nil {
			return nil, err
		}
	} else {
		rec.Counted = store.NeverCounted
	}
	won, err := s.write(ctx, rec)
	if err != nil || !won {
		refund()
		return nil, err
	}
	s.metrics.admitted.WithLabelValues("new").Inc()
	wake(s.queued)
	wake(s.admitted)
	return &buildv1.SubmitBuildResponse{BuildId: rec.ID}, nil
}

// succeededParts returns the builds whose images a build uses, if all have succeeded, and nil
// otherwise. If all have ended and one failed, it also fails the build.
func (s *Service) succeededParts(ctx context.Context, r store.Record) ([]store.Record, error) {
	parts := make([]store.Record, len(r.Request.GetPartIds()))
	for i, id := range r.Request.GetPartIds() {
		var err error
		if parts[i], err = s.store.Get(ctx, id); err != nil {
			return nil, err
		}
		if parts[i].IsPending() {
			return nil, nil
		}
	}
	for _, p := range parts {
		if !p.Succeeded {
			return nil, s.fail(ctx, r, p.Reason, fmt.Sprintf("The build %s for %s failed: %s", p.ID, p.Request.GetRecipe().GetPlatform(), p.Message))
		}
	}
	return parts, nil
}

// ready returns the builds that do not wait for others.
func (s *Service) ready(ctx context.Context, waiting []store.Record) ([]store.Record, error) {
	out := waiting[:0]
	for _, r := range waiting {
		if len(r.Request.GetPartIds()) > 0 {
			parts, err := s.succeededParts(ctx, r)
			if err != nil {
				return nil, err
			}
			if parts == nil {
				continue
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// recipe returns the recipe of a build for a worker. If the build uses the image of another
// build, that image is the source.
func (s *Service) recipe(ctx context.Context, r store.Record) (*buildv1.Recipe, error) {
	recipe := r.Request.GetRecipe()
	if len(r.Request.GetPartIds()) == 0 {
		return recipe, nil
	}
	parts, err := s.succeededParts(ctx, r)
	if err != nil {
		return nil, s.store.Fault("reading the builds whose images a build uses", err)
	}
	if len(parts) != 1 {
		return nil, fault.NotFound.Newf("The image that the build %s uses does not exist", r.ID)
	}
	t := parts[0].Request.GetTarget()
	recipe = proto.CloneOf(recipe)
	recipe.Source = &containerv1.Source{Registry: t.GetRegistry(), Repository: t.GetRepository(), Reference: parts[0].Digest}
	return recipe, nil
}
