package container

import (
	"context"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// An image that is built from an issued name outlives the name. Its build therefore reads the
// image that the name resolves to, with the access of the build's own caller, and the token is
// not stored with the build (gateway/contract/container-service.md#issued-names).

// readRecipe parses the recipe of a request, and replaces issued names in it by the images
// that they resolve to. It does not replace names with additions: builds cannot read these,
// and they are rejected when the images of the recipe are checked.
func (s *Service) readRecipe(ctx context.Context, p request.Parsed, who *platformv1.Identity) (request.Recipe, error) {
	names := issuedNames{Service: s, who: who, own: map[oci.Reference]string{}}
	out := request.Recipe{Issued: names.own}
	switch {
	case p.Raw.GetContainerFile() != "":
		file, err := names.readDockerfile(ctx, p)
		if err != nil {
			return out, err
		}
		out.File = &file
	case request.IsRecipe(p.Raw):
		packages, err := names.withoutNames(ctx, p.Raw.GetPackages())
		if err != nil {
			return out, err
		}
		size := len(packages.GetEnvironment()) + len(p.Raw.GetCondaFile())
		err = s.deps.Turns.Do(ctx, caller.Of(who).Client(ctx), size, func() error {
			read, err := p.ReadPackages(packages, s.deps.CondaDefaults, s.deps.Now())
			out.Packages = &read
			return err
		})
		if err != nil {
			return out, err
		}
	}
	return out, p.CheckSolved(out.Packages)
}

// An issuedNames resolves issued names in a recipe for its caller.
type issuedNames struct {
	*Service
	who *platformv1.Identity
	// sifs reports whether names of Singularity images may be used.
	sifs bool
	// own maps images found in the service's own repository to their scopes.
	own map[oci.Reference]string
}

// readDockerfile parses the Dockerfile of a request, and replaces issued names in it.
func (n issuedNames) readDockerfile(ctx context.Context, p request.Parsed) (request.Dockerfile, error) {
	var file request.Dockerfile
	err := n.deps.Turns.Do(ctx, caller.Of(n.who).Client(ctx), len(p.Raw.GetContainerFile()), func() (err error) {
		file, err = p.ReadDockerfile()
		return err
	})
	if err != nil {
		return file, err
	}
	n.sifs = file.MayBeSif
	images := map[oci.Reference]oci.Reference{}
	for _, part := range file.Parts {
		for _, image := range part.Images {
			if file.IsLocal && n.deps.tokenIn(image) == "" {
				return file, fault.Invalid.Newf("containerFile: Bootstrap: localimage takes the name of an image that this service issued, not %q; use Bootstrap: docker or oras", fault.Quote(image.String()))
			}
			source, err := n.sourceOf(ctx, file.Field, image)
			if err != nil {
				return file, err
			}
			if source != image {
				images[image] = source
			}
		}
	}
	if len(images) == 0 {
		return file, nil
	}
	return file.Replace(images)
}

// withoutNames returns packages with the issued names in their options replaced.
func (n issuedNames) withoutNames(ctx context.Context, p *containerv1.Packages) (*containerv1.Packages, error) {
	out := proto.CloneOf(p)
	for field, image := range optionImages(out) {
		ref, err := oci.ParseReference(*image)
		if err != nil || n.deps.tokenIn(ref) == "" {
			continue // another check reports malformed names
		}
		source, err := n.sourceOf(ctx, field, ref)
		if err != nil {
			return nil, err
		}
		*image = source.String()
	}
	return out, nil
}

// optionImages returns the images in the options of packages that may be issued names, by
// their fields.
func optionImages(p *containerv1.Packages) map[string]*string {
	out := map[string]*string{}
	if o := p.GetCondaOpts(); o != nil {
		out["packages.condaOpts.baseImage"], out["packages.condaOpts.mambaImage"] = &o.BaseImage, &o.MambaImage
	}
	if o := p.GetPixiOpts(); o != nil {
		out["packages.pixiOpts.baseImage"] = &o.BaseImage
	}
	return out
}

// sourceOf returns the image that an issued name without additions resolves to, and any
// other image unchanged.
func (n issuedNames) sourceOf(ctx context.Context, field string, image oci.Reference) (oci.Reference, error) {
	token := n.deps.tokenIn(image)
	if token == "" {
		return image, nil
	}
	find := n.issued
	if n.sifs {
		find = n.issuedAny
	}
	rec, err := find(ctx, n.who, field, image, token)
	if err == nil {
		err = checkImage(field, image, rec.Plan)
	}
	switch {
	case err != nil:
		return image, err
	case rec.Plan.GetConfig() != nil:
		return image, nil
	case rec.Plan.GetBuildId() != "":
		return n.builtSourceOf(ctx, field, image, rec.Plan)
	}
	return oci.ReferenceOf(rec.Plan.GetSource()), nil
}

// builtSourceOf returns a built image by digest if it exists and the caller may read it. It
// records the scope of an image in the service's own repository, since a build may only
// read recorded images there.
func (n issuedNames) builtSourceOf(ctx context.Context, field string, image oci.Reference, plan *containerv1.Plan) (oci.Reference, error) {
	plan.Identity = n.who
	b, err := n.reread(ctx, plan)
	switch {
	case err != nil:
		return image, notForCaller(field, err)
	case !plan.GetBuilt():
		return image, stillBuilt(field, image, plan.GetBuildId())
	case b.GetAdded():
		return image, nil
	}
	source := at(oci.ReferenceOf(plan.GetSource()), digest.Digest(plan.GetDigests()[0]))
	if n.deps.owns(source.Registry, source.Repository) {
		n.own[source] = b.GetScope()
	}
	return source, nil
}

// stillBuilt returns the error for an image whose build has not finished.
func stillBuilt(field string, image oci.Reference, build string) error {
	return fault.Conflict.Newf("%s: the build %s has not made %s yet; repeat the request when `slipway status %s` shows that it is done", field, build, image, build).WithCode(fault.BuildRunning)
}
