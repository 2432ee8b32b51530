package container

import (
	"context"
	"fmt"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// The layers of included images go the way of a request's own: they stand after these in
// the configuration that is kept with a name, or with what is built, and each says which
// repository has it and whose login reads it there. None is stored by this service
// (gateway/contract/container-service.md#included-images).

// inclusions are layers of other images; the zero value is none.
type inclusions struct {
	layers []*containerv1.Layer
	// until is when the first of the names ends that this service gave out, and that were
	// the right to read an image; zero for never.
	until time.Time
}

// added is what the request adds to its image, or to what is built, without contents; nil
// for nothing.
func (r request) added() *containerv1.ContainerConfig {
	out := withoutContents(r.raw.GetContainerConfig())
	if len(r.included.layers) == 0 {
		return out
	}
	if out == nil {
		out = &containerv1.ContainerConfig{}
	}
	out.Layers = append(out.Layers, r.included.layers...)
	return out
}

// makes says whether what the request adds goes into an image that outlives every name.
func (r request) makes() bool { return r.raw.GetFreeze() || r.isSif() }

// checkIncludes wants names of images.
func checkIncludes(r *containerv1.ContainerRequest) ([]oci.Reference, error) {
	var out []oci.Reference
	for i, name := range r.GetContainerIncludes() {
		ref, err := oci.ParseReference(name)
		if err != nil {
			return nil, fault.In(fmt.Sprintf("containerIncludes[%d]", i), err)
		}
		out = append(out, ref)
	}
	return out, nil
}

// include looks up the images that a request includes, as they are now.
func (s *Service) include(ctx context.Context, r request, who *platformv1.Identity) (request, error) {
	if len(r.includes) == 0 {
		return r, nil
	}
	raw := proto.CloneOf(r.raw)
	raw.ContainerIncludes = nil
	platforms, err := s.platformsOf(ctx, r)
	if err != nil {
		return r, err
	}
	images := make([]inclusion, len(r.includes))
	group, looking := errgroup.WithContext(ctx)
	group.SetLimit(limits.IncludesAtOnce)
	for i, image := range r.includes {
		group.Go(func() (err error) {
			images[i], err = s.inclusion(looking, r, who, fmt.Sprintf("containerIncludes[%d]", i), image)
			if err == nil {
				images[i].layers, err = s.layersOf(looking, images[i], platforms)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	for _, in := range images {
		r.included.layers = append(r.included.layers, in.layers...)
		r.included.endBy(in.until)
		raw.ContainerIncludes = append(raw.ContainerIncludes, in.source.String())
	}
	if !r.included.until.IsZero() {
		raw.WorkflowId = "" // no run makes a name live longer than those that it includes
	}
	r.raw = raw
	if err := checkCount("containerIncludes: with those of the request", r.added().GetLayers()); err != nil {
		return r, err
	}
	return r, s.extendLayers(ctx, &containerv1.Plan{
		Config: &containerv1.ContainerConfig{Layers: r.included.layers}, Expiration: s.expirationOf(r),
	})
}

// endBy notes that a name ends; a zero one does not.
func (i *inclusions) endBy(until time.Time) {
	if i.until.IsZero() || !until.IsZero() && until.Before(i.until) {
		i.until = until
	}
}

// platformsOf are the platforms that a request is for: unless it names them, those of a
// name that this service gave out.
func (s *Service) platformsOf(ctx context.Context, r request) ([]ocispec.Platform, error) {
	token := s.deps.tokenIn(r.image)
	if token == "" || r.raw.GetContainerPlatform() != "" {
		return r.platforms, nil
	}
	rec, err := s.given(ctx, "containerImage", r.image, token)
	if err != nil {
		return nil, err
	}
	out, err := oci.ParsePlatforms(rec.Plan.GetPlatform())
	if err != nil {
		return nil, fmt.Errorf("reading the platform of a stored request: %w", err)
	}
	return out, nil
}

// checkCount bounds the layers that are put on top of one image.
func checkCount(what string, layers []*containerv1.Layer) error {
	own, included, most := 0, map[string]int{}, 0
	for _, l := range layers {
		from := l.GetIncludedFrom()
		if from == nil {
			own++
			continue
		}
		included[from.GetArchitecture()]++
		most = max(most, included[from.GetArchitecture()])
	}
	if own > limits.Layers {
		return fault.Invalid.Newf("%s there are %d layers; the maximum is %d", what, own, limits.Layers)
	}
	if most > limits.IncludedLayers {
		return fault.Invalid.Newf("containerIncludes: the images have %d layers together; the maximum is %d", most, limits.IncludedLayers)
	}
	return nil
}

// includes says whether a configuration has layers of other images.
func includes(c *containerv1.ContainerConfig) bool {
	for _, l := range c.GetLayers() {
		if l.GetIncludedFrom() != nil {
			return true
		}
	}
	return false
}

// withoutIncluded is a configuration as a request could have it.
func withoutIncluded(c *containerv1.ContainerConfig) *containerv1.ContainerConfig {
	if !includes(c) {
		return c
	}
	out := proto.CloneOf(c)
	out.Layers = nil
	for _, l := range c.GetLayers() {
		if l.GetIncludedFrom() == nil {
			out.Layers = append(out.Layers, l)
		}
	}
	return withoutContents(out)
}
