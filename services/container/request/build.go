package request

import (
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/oci"
)

// Build returns the message of a plan to the build service: one build, a Singularity image of
// it, or one build for each of two platforms and an index over them.
func (r Resolved) Build(plan BuildPlan, to Destination, clientIP string) *buildv1.SubmitBuildRequest {
	var builds []*buildv1.SubmitBuildRequest
	for _, p := range plan.Parts {
		b := r.message(p.recipe, ContentDigest(p.recipe, to), plan.names, to, clientIP)
		b.Target.CacheRepository = r.Raw.GetCacheRepository()
		b.Lock, b.Preface, b.Unsolved, b.SolvedFrom = p.lock, p.preface, p.unsolved, p.solvedFrom
		b.GivenImages = r.issuedAmong(p.Images)
		if to.Scope != "" {
			b.Repositories = repositories(p.Images)
		}
		builds = append(builds, b)
	}
	switch {
	case len(builds) > 1:
		return r.index(plan, builds, to, clientIP)
	case r.IsSif():
		return r.sif(plan, builds[0], to, clientIP)
	}
	return builds[0]
}

// BuildCopy returns the message for a copy of an image by digest, with its additions, or its
// conversion to a Singularity image.
func (r Resolved) BuildCopy(from *containerv1.Plan, to Destination, clientIP string) *buildv1.SubmitBuildRequest {
	recipe := &buildv1.Recipe{
		Engine: "freeze", Format: "oci", Platform: from.GetPlatform(), Config: from.GetConfig(), Source: from.GetSource(), Soci: r.Raw.GetSoci() && !r.IsSif(),
	}
	recipe.SociPrefetch = prefetchOf(r.Raw)
	if r.IsSif() {
		recipe.Engine, recipe.Format, recipe.SifKey = FormatSif, FormatSif, r.SifKey
	}
	return r.message(recipe, ContentDigest(recipe, to), conda.Naming{}, to, clientIP)
}

// message returns a message with the fields that all builds have.
func (r Resolved) message(recipe *buildv1.Recipe, digest string, names conda.Naming, to Destination, clientIP string) *buildv1.SubmitBuildRequest {
	path, tag := names.ImageName(r.Raw.GetNameStrategy(), digest[:16])
	return &buildv1.SubmitBuildRequest{
		ContentId: digest[:16], ContentDigest: digest, Recipe: recipe, Scope: to.Scope,
		Target:   &buildv1.Target{Registry: to.Registry, Repository: to.Repository + path, Tag: tag},
		Identity: r.Caller, ClientIp: clientIP, DryRun: r.Raw.GetDryRun(),
	}
}

// index returns the build of an index over builds.
func (r Resolved) index(plan BuildPlan, builds []*buildv1.SubmitBuildRequest, to Destination, clientIP string) *buildv1.SubmitBuildRequest {
	recipe := &buildv1.Recipe{
		Engine: "index", Format: "oci", Platform: oci.Platforms(r.Platforms),
		ContainerFile: plan.shownFile, CondaFile: plan.condaFile, Compression: compressionOf(r.Raw),
	}
	out := r.message(recipe, indexDigest(builds), plan.names, to, clientIP)
	out.Target.CacheRepository = r.Raw.GetCacheRepository()
	out.Repositories, out.SolvedFrom, out.Parts = builds[0].GetRepositories(), builds[0].GetSolvedFrom(), builds
	return out
}

// sif returns the conversion of a build's result to a Singularity image. The image is built
// first, like for a request for the image only, and then converted with the request's
// additions, unless the image includes them. An image with additions belongs to its caller.
func (r Resolved) sif(plan BuildPlan, b *buildv1.SubmitBuildRequest, to Destination, clientIP string) *buildv1.SubmitBuildRequest {
	recipe := &buildv1.Recipe{
		Engine: FormatSif, Format: FormatSif, Platform: b.GetRecipe().GetPlatform(), SifKey: r.SifKey,
		ContainerFile: plan.shownFile, CondaFile: plan.condaFile, Compression: compressionOf(r.Raw),
	}
	if r.AddsToSif() {
		recipe.Config, to = r.Added(), to.Of(caller.Of(r.Caller))
	}
	b.GetRecipe().SifParts = b.GetRecipe().GetEngine() == "conda"
	out := r.message(recipe, sifDigest(b, recipe, to.Scope), plan.names, to, clientIP)
	out.SolvedFrom, out.Parts = b.GetSolvedFrom(), []*buildv1.SubmitBuildRequest{b}
	return out
}

// repositories returns the repositories of images, "<host>/<path>", without duplicates.
func repositories(images []oci.Reference) []string {
	var out []string
	for _, image := range images {
		if name := image.Registry + "/" + image.Repository; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// issuedAmong returns those images of a recipe in the service's own repository that the
// request referred to by issued names.
func (r Resolved) issuedAmong(images []oci.Reference) []*containerv1.Source {
	var out []*containerv1.Source
	for _, image := range images {
		if _, ok := r.Issued[image]; ok {
			out = append(out, &containerv1.Source{Registry: image.Registry, Repository: image.Repository, Reference: image.Digest.String()})
		}
	}
	return out
}
