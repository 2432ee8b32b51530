package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/rpc"
)

// await waits for the build that creates a token's image. All pulls of one image in this
// process share one call. It returns an unavailable fault on timeout, and MANIFEST_UNKNOWN
// if the build fails.
func (s *Registry) await(ctx context.Context, tok *resolvedToken) error {
	if tok.build == "" || tok.built.Load() {
		return nil
	}
	return s.awaitResult(ctx, tok, tok.build)
}

// errLost marks errors of pulls whose image was pushed by a build but is missing in the
// registry.
var errLost = errors.New("the registry has lost the image")

// restore rebuilds a lost image and waits for the build. Concurrent pulls of one image share
// one call.
func (s *Registry) restore(ctx context.Context, tok *resolvedToken) error {
	if s.deps.Builds == nil {
		return unknownManifest("The registry has lost the image, and this server has no build service to rebuild it")
	}
	place, err := s.waiting.TryAcquire(fairshare.Request{Client: rpc.CallFrom(ctx).Address()})
	if err != nil {
		return err
	}
	id, err := s.restores.Do(ctx, tok.build, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		if oci.IsKeptID(tok.token) { // the records of its builds may have been deleted
			fresh, err := s.deps.Containers.ResolveToken(ctx, &containerv1.ResolveTokenRequest{Token: tok.token, Fresh: true, Lost: true})
			return fresh.GetPlan().GetBuildId(), err
		}
		got, err := s.deps.Builds.RestoreImage(ctx, &buildv1.RestoreImageRequest{BuildId: tok.build})
		return got.GetBuildId(), err
	})
	place.Release()
	if err != nil {
		return fmt.Errorf("rebuilding a lost image: %w", err)
	}
	return s.awaitResult(ctx, tok, id)
}

// awaitResult waits for a build of the token's image.
func (s *Registry) awaitResult(ctx context.Context, tok *resolvedToken, build string) error {
	if s.deps.Builds == nil {
		return fault.Unavailable.Newf("The image %s is being built, and this server has no build service", tok.name)
	}
	place, err := s.waiting.TryAcquire(fairshare.Request{Client: rpc.CallFrom(ctx).Address()})
	if err != nil {
		return err
	}
	defer place.Release()
	ctx, span := s.tracer.Start(ctx, "wait for build", trace.WithAttributes(attribute.String("slipway.build_id", build)))
	defer span.End()
	s.metrics.waiting.Add(1)
	defer s.metrics.waiting.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.buildsStopped, func() { cancel(errBuildsStopped) })()
	got, err := s.builds.Do(ctx, build, func(ctx context.Context) (*buildv1.AwaitBuildResponse, error) {
		return s.awaitBuild(ctx, build)
	})
	if errors.Is(context.Cause(ctx), errBuildsStopped) && err != nil {
		return errBuildsStopped
	}
	if err != nil {
		return fmt.Errorf("waiting for build %s: %w", build, err)
	}
	// The build belongs to the trace of the request that started it.
	bus.Link(span, got.GetTraceParent())
	switch got.GetState() {
	case buildv1.BuildState_BUILD_STATE_SUCCEEDED:
		tok.built.Store(true)
		return nil
	case buildv1.BuildState_BUILD_STATE_FAILED:
		return unknownManifest(fmt.Sprintf("The build %s failed (%s): %s. Its log: %s/v1alpha1/builds/%s/logs",
			build, got.GetReason(), got.GetMessage(), s.deps.PublicURL, build))
	default:
		return fault.Unavailable.Newf("The build %s has not ended yet; pull again", build).After(5 * time.Second)
	}
}

// errBuildsStopped ends the pulls that wait for a build when this process stops.
var errBuildsStopped = fault.Unavailable.Newf("The server stops while the image is being built; pull again in a moment").After(5 * time.Second)

// awaitBuild calls AwaitBuild until the build ends, and calls it again after each dropped
// connection.
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
