package container

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// The layers of included images go the way of a request's own: they stand after these in
// the configuration that is kept with a name, or with what is built, and each says which
// repository has it and whose login reads it there. None is stored by this service
// (gateway/contract/container-service.md#included-images).

// include looks up the images that a request includes, as they are now.
func (s *Service) include(ctx context.Context, r request.Request, who *platformv1.Identity) (request.Request, error) {
	if len(r.Includes) == 0 {
		return r, nil
	}
	raw := proto.CloneOf(r.Raw)
	raw.ContainerIncludes = nil
	platforms, err := s.platformsOf(ctx, r)
	if err != nil {
		return r, err
	}
	images := make([]sources.Inclusion, len(r.Includes))
	group, looking := errgroup.WithContext(ctx)
	group.SetLimit(limits.IncludesAtOnce)
	for i, image := range r.Includes {
		group.Go(func() (err error) {
			images[i], err = s.inclusion(looking, r, who, fmt.Sprintf("containerIncludes[%d]", i), image)
			if err == nil {
				images[i].Layers, err = s.layersOf(looking, images[i], platforms)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	for _, in := range images {
		r.Included.Layers = append(r.Included.Layers, in.Layers...)
		r.Included.EndBy(in.Until)
		raw.ContainerIncludes = append(raw.ContainerIncludes, in.Source.String())
	}
	if !r.Included.Until.IsZero() {
		raw.WorkflowId = "" // no run makes a name live longer than those that it includes
	}
	r.Raw = raw
	if err := request.CheckCount("containerIncludes: with those of the request", r.Added().GetLayers()); err != nil {
		return r, err
	}
	return r, s.extendLayers(ctx, &containerv1.Plan{
		Config: &containerv1.ContainerConfig{Layers: r.Included.Layers}, Expiration: s.expirationOf(r),
	})
}

// platformsOf are the platforms that a request is for: unless it names them, those of a
// name that this service gave out.
func (s *Service) platformsOf(ctx context.Context, r request.Request) ([]ocispec.Platform, error) {
	token := s.deps.tokenIn(r.Image)
	if token == "" || r.Raw.GetContainerPlatform() != "" {
		return r.Platforms, nil
	}
	rec, err := s.given(ctx, "containerImage", r.Image, token)
	if err != nil {
		return nil, err
	}
	out, err := oci.ParsePlatforms(rec.Plan.GetPlatform())
	if err != nil {
		return nil, fmt.Errorf("reading the platform of a stored request: %w", err)
	}
	return out, nil
}
