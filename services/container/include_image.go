package container

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// inclusion looks an image up with the caller's login at its repository, or with the token
// in its name.
func (s *Service) inclusion(ctx context.Context, r request.Request, who *platformv1.Identity, field string, image oci.Reference) (sources.Inclusion, error) {
	if token := s.deps.tokenIn(image); token != "" {
		return s.givenInclusion(ctx, r, who, sources.Inclusion{Field: field, Image: image}, token)
	}
	if s.deps.owns(image.Registry, image.Repository) {
		return sources.Inclusion{}, sources.NotFound(field, image, nil)
	}
	d, access, err := s.sources.Resolve(ctx, caller.Of(who), field, image)
	return sources.Inclusion{Field: field, Image: image, Source: at(image, d), Access: access, Identity: who}, err
}

// at is an image by its digest.
func at(image oci.Reference, d digest.Digest) oci.Reference {
	return oci.Reference{Registry: image.Registry, Repository: image.Repository, Digest: d}
}

// givenInclusion is what a name stands for that this service gave out. In an image that
// outlives the name it is there for who may read all of it without.
func (s *Service) givenInclusion(ctx context.Context, r request.Request, who *platformv1.Identity, in sources.Inclusion, token string) (sources.Inclusion, error) {
	rec, err := s.given(ctx, in.Field, in.Image, token)
	if err != nil {
		return in, err
	}
	plan := rec.Plan
	in.Identity, in.BuildID, in.Until = plan.GetIdentity(), plan.GetBuildId(), rec.Expires
	in.Above, in.Platforms = plan.GetConfig().GetLayers(), plan.GetPlatform()
	if !request.Includes(plan.GetConfig()) {
		in.Platforms = ""
	}
	if r.Makes() {
		in.Identity, in.Until = who, time.Time{}
		if err := s.rereadIncluded(ctx, in.Field, in.Above, who); err != nil {
			return in, err
		}
	}
	if in.BuildID != "" {
		b, err := s.locate(ctx, in.BuildID)
		if err == nil && r.Makes() {
			err = mayHave(b, who)
		}
		if err != nil {
			return in, fault.In(in.Field, err)
		}
		if b.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
			return in, fault.Invalid.Newf("%s: %s is still being built; include it when `slipway status` says that it is done", in.Field, in.Image)
		}
	}
	src := plan.GetSource()
	source, err := oci.ParseReference(src.GetRegistry() + "/" + src.GetRepository() + oci.Suffix(src.GetReference()))
	if err != nil {
		return in, fmt.Errorf("reading the image of a stored request: %w", err)
	}
	if in.Access, err = s.accessTo(ctx, in.Identity, in.BuildID, source); err != nil {
		return in, err
	}
	d, err := s.sources.At(ctx, in.Access, source)
	in.Source = at(source, d)
	return in, sources.Unreadable(in.Field, in.Image, in.Access, err)
}

// layersOf are the layers that an included image has for the platforms, and what was put
// on top of it.
func (s *Service) layersOf(ctx context.Context, in sources.Inclusion, wanted []ocispec.Platform) ([]*containerv1.Layer, error) {
	var out []*containerv1.Layer
	for _, p := range wanted {
		if in.Platforms != "" && !slices.Contains(strings.Split(in.Platforms, ","), platforms.Format(p)) {
			return nil, fault.Invalid.Newf("%s: %s is for %s, not for %s", in.Field, in.Image, in.Platforms, platforms.Format(p))
		}
		layers, err := s.sources.Layers(ctx, in, p)
		if err != nil {
			return nil, err
		}
		from := &containerv1.LayerOrigin{
			Registry: in.Source.Registry, Repository: in.Source.Repository, Reference: in.Source.Digest.String(),
			Identity: loginOf(in.Identity), BuildId: in.BuildID,
		}
		if len(wanted) > 1 {
			from.Architecture = p.Architecture
		}
		for _, l := range layers {
			out = append(out, sources.Layer(l, from))
		}
	}
	return append(out, in.Above...), nil
}
