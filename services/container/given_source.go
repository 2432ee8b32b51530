package container

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/containerd/platforms"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/dockerfile"
	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// What is made of an image whose name this service gave out outlives the name, and is
// read by a worker: so it is made of the image that the name stands for, as whoever asks
// may read that. The token is kept with nothing that is made
// (gateway/contract/container-service.md#names-given-out).

// frozenGiven is the image that a given name stands for as it is now, with what the
// request adds, for one platform: it must be there, and be the caller's to read.
func (s *Service) frozenGiven(ctx context.Context, r request.Request, who *platformv1.Identity) (*containerv1.Plan, error) {
	rec, err := s.given(ctx, "containerImage", r.Image, s.deps.tokenIn(r.Image))
	if err != nil {
		return nil, err
	}
	plan := rec.Plan
	plan.Identity = who
	if err := givenPlatform(r, plan); err != nil {
		return nil, err
	}
	if _, err := s.reread(ctx, plan); err != nil {
		return nil, notForCaller("containerImage", err)
	}
	if plan.GetBuildId() != "" && !plan.GetBuilt() {
		return nil, fault.Invalid.Newf("containerImage: %s is still being built; freeze it when `slipway status` says that it is done", r.Image)
	}
	if err := s.rereadIncluded(ctx, "containerImage", plan.GetConfig().GetLayers(), who); err != nil {
		return nil, err
	}
	if err := addConfig(plan, r); err != nil {
		return nil, err
	}
	if plan.Platform, _, _ = strings.Cut(plan.GetPlatform(), ","); r.Raw.GetContainerPlatform() != "" {
		plan.Platform = platforms.Format(r.Platform())
	}
	plan.Source.Reference = plan.GetDigests()[0]
	plan.Expiration = s.expiration() // until when a worker may ask for layers
	return plan, s.extendLayers(ctx, plan)
}

// withoutGiven is a request whose recipe names the images that given names stand for in
// their place. One that has additions is nothing that a build can read: that stays, and
// is refused with the recipe's other images.
func (s *Service) withoutGiven(ctx context.Context, r request.Request, who *platformv1.Identity) (request.Request, error) {
	if !request.IsRecipe(r.Raw) {
		return r, nil
	}
	raw := proto.CloneOf(r.Raw)
	names := givenNames{Service: s, who: who, own: map[oci.Reference]string{}}
	file, err := names.fileWithout(ctx, r)
	if err != nil {
		return r, err
	}
	if file != "" {
		raw.ContainerFile = base64.StdEncoding.EncodeToString([]byte(file))
	}
	if o := raw.GetPackages().GetCondaOpts(); o != nil {
		for field, image := range map[string]*string{"packages.condaOpts.baseImage": &o.BaseImage, "packages.condaOpts.mambaImage": &o.MambaImage} {
			ref, err := oci.ParseReference(*image)
			if err != nil || s.deps.tokenIn(ref) == "" {
				continue // what is malformed its own check says
			}
			if *image, err = names.sourceOf(ctx, field, ref); err != nil {
				return r, err
			}
		}
	}
	r.Raw, r.Given = raw, names.own
	return r, nil
}

// givenNames finds what the names in a recipe stand for, for whoever has it built.
type givenNames struct {
	*Service
	who *platformv1.Identity
	// own are the images found in the service's own repository, with the scope of each.
	own map[oci.Reference]string
}

// fileWithout is the Dockerfile of a request without given names; "" where it is the
// same. What cannot be read is said where it is read.
func (g givenNames) fileWithout(ctx context.Context, r request.Request) (string, error) {
	text := request.Decoded(r.Raw.GetContainerFile())
	if !strings.Contains(text, "/wt/") {
		return "", nil
	}
	file, err := dockerfile.Read(text)
	if err != nil {
		return "", nil //nolint:nilerr // see above
	}
	for _, p := range r.Platforms {
		images, err := file.Images(p)
		if err != nil {
			return "", nil //nolint:nilerr // see above
		}
		for _, image := range images {
			source, err := g.sourceOf(ctx, "containerFile", image)
			if err != nil {
				return "", err
			}
			text = strings.ReplaceAll(text, image.String(), source)
		}
	}
	return text, nil
}

// sourceOf is the image that a given name stands for alone; any other is itself.
func (g givenNames) sourceOf(ctx context.Context, field string, image oci.Reference) (string, error) {
	token := g.deps.tokenIn(image)
	if token == "" {
		return image.String(), nil
	}
	rec, err := g.given(ctx, field, image, token)
	if err != nil {
		return "", err
	}
	src := rec.Plan.GetSource()
	switch {
	case rec.Plan.GetConfig() != nil:
		return image.String(), nil
	case rec.Plan.GetBuildId() != "":
		return g.builtSourceOf(ctx, field, image, rec.Plan)
	}
	return src.GetRegistry() + "/" + src.GetRepository() + oci.Suffix(src.GetReference()), nil
}

// builtSourceOf is an image that was built, by its digest, if it is there and for its
// caller. One in the service's own repository is noted, with whose it is: a build reads
// none there but what it was given (builder's sources hold it to that).
func (g givenNames) builtSourceOf(ctx context.Context, field string, image oci.Reference, plan *containerv1.Plan) (string, error) {
	plan.Identity = g.who
	b, err := g.reread(ctx, plan)
	switch {
	case err != nil:
		return "", notForCaller(field, err)
	case !plan.GetBuilt():
		return "", fault.Invalid.Newf("%s: %s is still being built; build from it when `slipway status` says that it is done", field, image)
	case b.GetAdded():
		return image.String(), nil
	}
	src := plan.GetSource()
	source, err := oci.ParseReference(src.GetRegistry() + "/" + src.GetRepository() + "@" + plan.GetDigests()[0])
	if err != nil {
		return "", fmt.Errorf("reading the image of a build: %w", err)
	}
	if g.deps.owns(source.Registry, source.Repository) {
		g.own[source] = b.GetScope()
	}
	return source.String(), nil
}
