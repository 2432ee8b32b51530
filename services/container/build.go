package container

import (
	"context"
	"slices"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
)

// buildRequest is what the build room is asked for: one build, a Singularity image of
// it, or one build for each of two platforms and an index over them.
func (s *Service) buildRequest(ctx context.Context, r request, who *platformv1.Identity, to destination, contextData []byte) (*buildv1.SubmitBuildRequest, error) {
	var builds []*buildv1.SubmitBuildRequest
	for _, p := range r.recipe.parts {
		b, err := s.partRequest(ctx, r, p, who, to)
		if err != nil {
			return nil, err
		}
		if b.GetRecipe().GetContext() != nil {
			b.Recipe.ContextData = contextData
		}
		builds = append(builds, b)
	}
	switch {
	case len(builds) > 1:
		return r.indexOf(builds, to), nil
	case r.isSif():
		if r.addsToSif() {
			to = to.of(caller.Of(who))
		}
		return r.sifOf(builds[0], to), nil
	}
	return builds[0], nil
}

// partRequest asks for the build for one platform.
func (s *Service) partRequest(ctx context.Context, r request, p part, who *platformv1.Identity, to destination) (*buildv1.SubmitBuildRequest, error) {
	lock, preface := r.foreseen.of(p.platform, r.isDirect())
	recipe := r.message(p.platform)
	if r.isDirect() {
		recipe = r.directMessage(p.platform, lock)
	}
	digest := contentDigest(recipe, to.registry, to.repository, to.scope)
	b := &buildv1.SubmitBuildRequest{
		ContentId: digest[:16], ContentDigest: digest, Recipe: recipe, Scope: to.scope,
		Target:   &buildv1.Target{Registry: to.registry, CacheRepository: r.raw.GetCacheRepository()},
		Identity: who, ClientIp: clientIP(ctx), DryRun: r.raw.GetDryRun(),
		Lock: lock, Preface: preface,
	}
	r.setName(b, to)
	if !to.own && s.deps.owns(to.registry, b.GetTarget().GetRepository()) {
		return nil, fault.Invalid.Newf("buildRepository: the image's name would belong to this service; use another nameStrategy")
	}
	if to.scope != "" {
		b.Repositories = repositories(p.images)
	}
	b.GivenImages = r.givenAmong(p.images)
	return b, nil
}

// message is the recipe as workers get it, without the bytes of the context.
func (r request) message(p ocispec.Platform) *buildv1.Recipe {
	out := &buildv1.Recipe{
		ContainerFile: r.recipe.containerFile, Files: r.recipe.files, Platform: platforms.Format(p),
		Format: "oci", Engine: "buildkit", CondaFile: r.recipe.condaFile, Compression: compressionOf(r.raw),
		CondaOptions: r.raw.GetPackages().GetCondaOpts(),
	}
	if l := r.raw.GetBuildContext(); l.GetLocation() != "" {
		out.Context = layerWithoutContent(l)
	}
	if r.raw.GetFreeze() {
		out.Config = r.added()
	}
	return out
}

// shownFile is the Dockerfile that what is made of builds is shown with; "" where they
// begin with packages.
func (r request) shownFile() string {
	if r.isDirect() {
		return ""
	}
	return r.recipe.containerFile
}

// indexOf is an index over builds.
func (r request) indexOf(builds []*buildv1.SubmitBuildRequest, to destination) *buildv1.SubmitBuildRequest {
	out := proto.CloneOf(builds[0])
	out.ContentDigest = indexDigest(builds)
	out.ContentId = out.GetContentDigest()[:16]
	out.Recipe = &buildv1.Recipe{
		Engine: "index", Format: "oci", Platform: oci.Platforms(r.platforms),
		ContainerFile: r.shownFile(), CondaFile: r.recipe.condaFile, Compression: compressionOf(r.raw),
	}
	r.setName(out, to)
	out.Lock, out.Preface, out.GivenImages = nil, "", nil
	out.Parts = builds
	return out
}

// sifOf is a Singularity image of what a build makes: that is built first, as it
// is where only the image was asked for, and then converted, with what the request adds
// unless that is in the image.
func (r request) sifOf(b *buildv1.SubmitBuildRequest, to destination) *buildv1.SubmitBuildRequest {
	out := proto.CloneOf(b)
	out.Recipe = &buildv1.Recipe{
		Engine: formatSif, Format: formatSif, Platform: b.GetRecipe().GetPlatform(),
		ContainerFile: r.shownFile(), CondaFile: r.recipe.condaFile, Compression: compressionOf(r.raw),
	}
	if r.addsToSif() {
		out.Recipe.Config = r.added()
	}
	out.ContentDigest, out.Scope = sifDigest(b, out.GetRecipe().GetConfig(), to.scope), to.scope
	out.ContentId = out.GetContentDigest()[:16]
	r.setName(out, to)
	out.Target.CacheRepository, out.Repositories, out.GivenImages = "", nil, nil
	out.Lock, out.Preface = nil, ""
	out.Parts = []*buildv1.SubmitBuildRequest{b}
	return out
}

// setName puts the image where its content id and the naming strategy say.
func (r request) setName(b *buildv1.SubmitBuildRequest, to destination) {
	path, tag := r.recipe.names.ImageName(r.raw.GetNameStrategy(), b.GetContentId())
	b.Target.Repository, b.Target.Tag = to.repository+path, tag
}

// repositories are those that images lie in, "<host>/<path>", each once.
func repositories(images []oci.Reference) []string {
	var out []string
	for _, image := range images {
		if name := image.Registry + "/" + image.Repository; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func clientIP(ctx context.Context) string {
	if ip := rpc.CallFrom(ctx).ClientIP; ip.IsValid() {
		return ip.String()
	}
	return ""
}
