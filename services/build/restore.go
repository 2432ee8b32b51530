package build

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
)

// restorePause is the time after a failed build in which RestoreImage does not queue another
// build of the image. Otherwise each pull would queue one.
const restorePause = 10 * time.Minute

// RestoreImage queues a new build of an image that the registry has lost.
func (s *Service) RestoreImage(ctx context.Context, req *buildv1.RestoreImageRequest) (*buildv1.RestoreImageResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	if !rec.Succeeded { // the build is running, or never had an image
		return &buildv1.RestoreImageResponse{BuildId: rec.ID}, nil
	}
	last, err := s.store.Newest(ctx, rec.Request.GetContentDigest())
	if err != nil {
		return nil, s.store.Fault("reading the newest build of an image", err)
	}
	if !last.IsPending() && !last.Succeeded && s.deps.Now().Sub(last.Completed) < restorePause {
		return &buildv1.RestoreImageResponse{BuildId: last.ID}, nil
	}
	again, err := s.requestOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	got, err := s.SubmitBuild(ctx, again)
	if err != nil {
		return nil, err
	}
	if !got.GetCached() {
		s.deps.Log.WarnContext(ctx, "The registry has lost an image; it is built again",
			"build_id", rec.ID, "image", store.Image(rec.Request.GetTarget()), "new_build_id", got.GetBuildId())
	}
	return &buildv1.RestoreImageResponse{BuildId: got.GetBuildId()}, nil
}

// requestOf returns the request that a build was submitted with. It returns fault.NotFound
// if the lock, the build context or a build of a part was deleted.
func (s *Service) requestOf(ctx context.Context, rec store.Record) (*buildv1.SubmitBuildRequest, error) {
	out := proto.CloneOf(rec.Request)
	out.PartIds, out.Outdated = nil, nil
	if first := out.GetSubmittedRecipe(); first != nil {
		out.Recipe, out.SubmittedRecipe = first, nil // the base image of the steps is lost, too
	}
	for _, id := range rec.Request.GetPartIds() {
		part, err := s.read(ctx, id)
		if err != nil {
			return nil, notRestorable(err, "the record of one of its builds")
		}
		request, err := s.requestOf(ctx, part)
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts, request)
	}
	recipe := out.GetRecipe()
	lock, err := s.store.Lock(ctx, rec.ID)
	isRequired := recipe.GetEngine() == engine.Conda && recipe.GetLockDigest() != ""
	if err != nil && (isRequired || !errors.Is(err, fault.NotFound)) {
		return nil, notRestorable(err, "its lock")
	}
	out.Lock = lock
	if context := recipe.GetContext(); context != nil {
		data, err := s.store.Context(ctx, context.GetGzipDigest())
		if err != nil {
			return nil, notRestorable(err, "its build context")
		}
		recipe.ContextData = data
	}
	return out, nil
}

// notRestorable returns the fault for an image that cannot be rebuilt because something was
// deleted, or err if it has another cause.
func notRestorable(err error, what string) error {
	if errors.Is(err, fault.NotFound) {
		return fault.NotFound.New("The registry has lost the image, and it cannot be rebuilt, because "+what+
			" was deleted; repeat the container request", err)
	}
	return err
}
