package request

import (
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/container/definition"
	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// A Dockerfile is a validated Dockerfile, or the translation of a Singularity definition.
type Dockerfile struct {
	// Field is the request field that the images come from, for messages.
	Field string
	// IsLocal reports whether each image must be one that this service issued.
	IsLocal bool
	// MayBeSif reports whether the image that it begins from may be a Singularity image.
	MayBeSif bool
	// Parts lists the builds, one for each requested platform.
	Parts []Part
	text  string
	// files lists the files that the text copies, in addition to those of the build context.
	files []*buildv1.File
}

// A Part is a build for one platform.
type Part struct {
	Platform ocispec.Platform
	// Images lists the images that it reads.
	Images []oci.Reference
}

// readDockerfile parses a Dockerfile once and finds the images that it reads for each
// platform. It returns fault.Invalid with the field for a malformed file.
func readDockerfile(field, text string, platforms []ocispec.Platform) (Dockerfile, error) {
	out := Dockerfile{Field: field, text: text}
	file, err := dockerfile.Read(text)
	if err != nil {
		return out, fault.In(field, err)
	}
	for _, p := range platforms {
		images, err := file.Images(p)
		if err != nil {
			return out, fault.In(field, err)
		}
		out.Parts = append(out.Parts, Part{p, images})
	}
	return out, nil
}

// ReadDockerfile parses the Dockerfile or the Singularity definition of the request.
func (p Parsed) ReadDockerfile() (Dockerfile, error) {
	const field = "containerFile"
	text := Decoded(p.Raw.GetContainerFile())
	if !definition.Is(text) {
		return readDockerfile(field, text, p.Platforms)
	}
	d, err := definition.Read(text)
	if err != nil {
		return Dockerfile{}, err
	}
	if d.NeedsContext() && p.Raw.GetBuildContext().GetLocation() == "" {
		return Dockerfile{}, fault.Invalid.Newf("containerFile: %%files copies files of the build context, which the request lacks; give buildContext")
	}
	out, err := readDockerfile(field, d.Dockerfile(), p.Platforms)
	out.IsLocal, out.MayBeSif = d.IsLocal, d.MayBeSif
	for _, f := range d.Files() {
		out.files = append(out.files, &buildv1.File{Path: f.Path, Content: []byte(f.Content)})
	}
	return out, err
}

// Replace returns the Dockerfile with other images in place of some of its images.
func (d Dockerfile) Replace(images map[oci.Reference]oci.Reference) (Dockerfile, error) {
	var pairs []string
	for old, image := range images {
		pairs = append(pairs, old.String(), image.String())
	}
	replacer := strings.NewReplacer(pairs...)
	var platforms []ocispec.Platform
	for _, p := range d.Parts {
		platforms = append(platforms, p.Platform)
	}
	out, err := readDockerfile(d.Field, replacer.Replace(d.text), platforms)
	out.IsLocal, out.MayBeSif = d.IsLocal, d.MayBeSif
	for _, f := range d.files {
		out.files = append(out.files, &buildv1.File{Path: f.GetPath(), Content: []byte(replacer.Replace(string(f.GetContent())))})
	}
	return out, err
}
