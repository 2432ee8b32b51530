package request

import (
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/oci"
)

// Message is the recipe as workers get it, without the bytes of the context.
func (r Request) Message(p ocispec.Platform) *buildv1.Recipe {
	out := &buildv1.Recipe{
		ContainerFile: r.Recipe.ContainerFile, Files: r.Recipe.files, Platform: platforms.Format(p),
		Format: "oci", Engine: "buildkit", CondaFile: r.Recipe.condaFile, Compression: compressionOf(r.Raw),
		CondaOptions: r.Raw.GetPackages().GetCondaOpts(),
	}
	if l := r.Raw.GetBuildContext(); l.GetLocation() != "" {
		out.Context = layerWithoutContent(l)
	}
	if r.Raw.GetFreeze() {
		out.Config = r.Added()
	}
	return out
}

// shownFile is the Dockerfile that what is made of builds is shown with; "" where they
// begin with packages.
func (r Request) shownFile() string {
	if r.IsDirect() {
		return ""
	}
	return r.Recipe.ContainerFile
}

// IndexOf is an index over builds.
func (r Request) IndexOf(builds []*buildv1.SubmitBuildRequest, to Destination) *buildv1.SubmitBuildRequest {
	out := proto.CloneOf(builds[0])
	out.ContentDigest = indexDigest(builds)
	out.ContentId = out.GetContentDigest()[:16]
	out.Recipe = &buildv1.Recipe{
		Engine: "index", Format: "oci", Platform: oci.Platforms(r.Platforms),
		ContainerFile: r.shownFile(), CondaFile: r.Recipe.condaFile, Compression: compressionOf(r.Raw),
	}
	r.SetName(out, to)
	out.Lock, out.Preface, out.GivenImages = nil, "", nil
	out.Parts = builds
	return out
}

// SifOf is a Singularity image of what a build makes: that is built first, as it
// is where only the image was asked for, and then converted, with what the request adds
// unless that is in the image.
func (r Request) SifOf(b *buildv1.SubmitBuildRequest, to Destination) *buildv1.SubmitBuildRequest {
	out := proto.CloneOf(b)
	out.Recipe = &buildv1.Recipe{
		Engine: FormatSif, Format: FormatSif, Platform: b.GetRecipe().GetPlatform(),
		ContainerFile: r.shownFile(), CondaFile: r.Recipe.condaFile, Compression: compressionOf(r.Raw),
	}
	if r.AddsToSif() {
		out.Recipe.Config = r.Added()
	}
	out.ContentDigest, out.Scope = sifDigest(b, out.GetRecipe().GetConfig(), to.Scope), to.Scope
	out.ContentId = out.GetContentDigest()[:16]
	r.SetName(out, to)
	out.Target.CacheRepository, out.Repositories, out.GivenImages = "", nil, nil
	out.Lock, out.Preface = nil, ""
	out.Parts = []*buildv1.SubmitBuildRequest{b}
	return out
}

// SetName puts the image where its content id and the naming strategy say.
func (r Request) SetName(b *buildv1.SubmitBuildRequest, to Destination) {
	path, tag := r.Recipe.names.ImageName(r.Raw.GetNameStrategy(), b.GetContentId())
	b.Target.Repository, b.Target.Tag = to.Repository+path, tag
}
