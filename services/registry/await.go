package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/rpc"
)

// await waits for the build that makes a token's image. All pulls of one image in
// this process wait in one call. Fault: unavailable when it takes too long,
// MANIFEST_UNKNOWN when there will be no image.
func (s *Registry) await(ctx context.Context, tok *resolvedToken) error {
	if tok.build == "" || tok.built.Load() {
		return nil
	}
	if s.deps.Builds == nil {
		return fault.Unavailable.Newf("The image %s is being built, and no build service is set up here", tok.name)
	}
	leave, err := s.waiting.Enter(rpc.CallFrom(ctx).Client())
	if err != nil {
		return err
	}
	defer leave()
	ctx, span := s.tracer.Start(ctx, "wait for build", trace.WithAttributes(attribute.String("slipway.build_id", tok.build)))
	defer span.End()
	s.metrics.waiting.Add(1)
	defer s.metrics.waiting.Add(-1)
	got, err := s.builds.Do(ctx, tok.build, func(ctx context.Context) (*buildv1.AwaitBuildResponse, error) {
		return s.awaitBuild(ctx, tok.build)
	})
	if err != nil {
		return fmt.Errorf("waiting for build %s: %w", tok.build, err)
	}
	// The build is in the trace of the request that started it.
	bus.Link(span, got.GetTraceParent())
	switch got.GetState() {
	case buildv1.BuildState_BUILD_STATE_SUCCEEDED:
		tok.built.Store(true)
		return nil
	case buildv1.BuildState_BUILD_STATE_FAILED:
		return unknownManifest(fmt.Sprintf("The build %s failed (%s): %s. Its log: %s/v1alpha1/builds/%s/logs",
			tok.build, got.GetReason(), got.GetMessage(), s.deps.PublicURL, tok.build))
	default:
		return fault.Unavailable.Newf("The build %s has not ended yet; pull again", tok.build).After(5 * time.Second)
	}
}

// awaitBuild is one long call; when its connection ends, the next.
func (s *Registry) awaitBuild(ctx context.Context, id string) (*buildv1.AwaitBuildResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.deps.PullWait+time.Second)
	defer cancel()
	for {
		got, err := s.deps.Builds.AwaitBuild(ctx, &buildv1.AwaitBuildRequest{BuildId: id})
		if !errors.Is(err, fault.Unavailable) || !retry.Sleep(ctx, time.Second) {
			return got, err
		}
	}
}
