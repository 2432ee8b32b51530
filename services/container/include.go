package container

import (
	"slices"
	"strings"
	"time"

	"github.com/containerd/platforms"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/fault"

	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// The layers of included images are handled like a request's own layers: they come after
// these in the configuration that is stored with a name or a build, and each has its
// repository and the identity whose login reads it. This service does not store their content
// (gateway/contract/container-service.md#included-images).

// include looks up the current digests and layers of the images that a request includes.
func (s *Service) include(ctx context.Context, p request.Parsed, who *platformv1.Identity) (request.Inclusions, error) {
	var out request.Inclusions
	if len(p.Includes) == 0 {
		return out, nil
	}
	wanted, err := s.platformsOf(ctx, p, who)
	if err != nil {
		return out, err
	}
	images := make([]sources.Inclusion, len(p.Includes))
	group, looking := errgroup.WithContext(ctx)
	group.SetLimit(limits.IncludesAtOnce)
	for i, image := range p.Includes {
		group.Go(func() (err error) {
			images[i], err = s.inclusion(looking, p, who, fmt.Sprintf("containerIncludes[%d]", i), image)
			if err == nil {
				images[i].Layers, err = s.layersOf(looking, images[i], wanted)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return out, err
	}
	for _, in := range images {
		out.Images = append(out.Images, in.Source.String())
		out.Layers = append(out.Layers, in.Layers...)
		out.EndBy(in.Until)
	}
	if err := request.CheckCount("containerIncludes: with those of the request", p.With(out).GetLayers()); err != nil {
		return out, err
	}
	return out, s.extendLayers(ctx, &containerv1.Plan{
		Config: &containerv1.ContainerConfig{Layers: out.Layers}, Expiration: s.expirationOf(out),
	})
}

// platformsOf returns the platforms of a request: those that it names, or those of its
// issued name.
func (s *Service) platformsOf(ctx context.Context, p request.Parsed, who *platformv1.Identity) ([]ocispec.Platform, error) {
	token := s.deps.tokenIn(p.Image)
	if token == "" || p.Raw.GetContainerPlatform() != "" {
		return p.Platforms, nil
	}
	rec, err := s.issued(ctx, who, "containerImage", p.Image, token)
	if err != nil {
		return nil, err
	}
	out, err := oci.ParsePlatforms(rec.Plan.GetPlatform())
	if err != nil {
		return nil, fmt.Errorf("reading the platform of a stored request: %w", err)
	}
	return out, nil
}

// inclusion looks up an image with the caller's login at its registry, or with the token in
// its name.
func (s *Service) inclusion(ctx context.Context, p request.Parsed, who *platformv1.Identity, field string, image oci.Reference) (sources.Inclusion, error) {
	if token := s.deps.tokenIn(image); token != "" {
		return s.issuedInclusion(ctx, p, who, sources.Inclusion{Field: field, Image: image}, token)
	}
	d, access, err := s.currentDigest(ctx, who, field, image)
	return sources.Inclusion{Field: field, Image: image, Source: at(image, d), Access: access, Identity: who}, err
}

// issuedInclusion returns the image that an issued name resolves to. If the result outlives
// the name, the caller must be able to read all of it without the name.
func (s *Service) issuedInclusion(ctx context.Context, p request.Parsed, who *platformv1.Identity, in sources.Inclusion, token string) (sources.Inclusion, error) {
	rec, err := s.issued(ctx, who, in.Field, in.Image, token)
	if err == nil {
		err = checkImage(in.Field, in.Image, rec.Plan)
	}
	if err != nil {
		return in, err
	}
	plan := rec.Plan
	in.Identity, in.BuildID, in.Until = plan.GetIdentity(), plan.GetBuildId(), rec.Expires
	in.Above, in.Platforms = plan.GetConfig().GetLayers(), plan.GetPlatform()
	if !request.Includes(plan.GetConfig()) {
		in.Platforms = ""
	}
	if p.IsPermanent() {
		in.Identity, in.Until = who, time.Time{}
		if err := s.rereadIncluded(ctx, in.Field, in.Above, who); err != nil {
			return in, err
		}
	}
	if in.BuildID != "" {
		b, err := s.locate(ctx, in.BuildID)
		if err == nil && p.IsPermanent() {
			err = checkScope(b, who)
		}
		if err != nil {
			return in, fault.In(in.Field, err)
		}
		if b.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
			return in, stillBuilt(in.Field, in.Image, in.BuildID)
		}
	}
	source := oci.ReferenceOf(plan.GetSource())
	if in.Access, err = s.accessTo(ctx, in.Identity, in.BuildID, source); err != nil {
		return in, err
	}
	d, err := s.sources.At(ctx, in.Access, source, in.BuildID != "")
	in.Source = at(source, d)
	if err != nil || in.BuildID != "" {
		return in, sources.Unreadable(in.Field, in.Image, in.Access, err)
	}
	return in, s.checkSigned(ctx, who, in.Field, source, d, in.Access)
}

// layersOf returns the layers of an included image for the platforms, and those added to
// it.
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
		if public := s.deps.Keychain.Publish(from.GetRegistry()); public != from.GetRegistry() {
			from.PublicRegistry = public
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
