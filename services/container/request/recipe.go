package request

import (
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/container/dockerfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Recipe is what a request wants built, checked as far as that needs nobody else.
type Recipe struct {
	// Field is where the images come from, for messages.
	Field string
	// ContainerFile is the whole Dockerfile.
	ContainerFile string
	files         []*buildv1.File
	// condaFile is the environment as the user sees it; "" for none.
	condaFile string
	// names is what the image is named after; the zero value is nothing.
	names conda.Naming
	// Packages is what can be solved before it is built; nil for nothing.
	Packages *condav1.CondaPackages
	// IsBase says whether a package is one that every environment gets.
	IsBase func(spec string) bool
	// Steps is what of Conda packages has to be run, in words; "" for nothing.
	Steps string
	// afterwards is what is run on the image of the packages, where they are known: lines of a
	// Dockerfile, and files; its parts are those of that image.
	afterwards afterwards
	// Base is the image that Conda packages are put on; zero otherwise. baseDigest is set
	// once it is known which packages those are (see direct.go).
	Base       oci.Reference
	BaseDigest digest.Digest
	// LockURL is the address of a lock; "" for none.
	LockURL string
	// Parts are the builds: one for each platform that was asked for.
	Parts []Part
}

// afterwards is what a request for Conda packages wants run; the zero value is nothing.
type afterwards struct {
	lines string
	files []*buildv1.File
	parts []Part
}

// Part is a build for one platform.
type Part struct {
	Platform ocispec.Platform
	// Images are those that it reads.
	Images []oci.Reference
}

// readRecipe reads the recipe of a request that has one.
func readRecipe(r *containerv1.ContainerRequest, platforms []ocispec.Platform, usual conda.Images) (*Recipe, error) {
	if r.GetContainerFile() == "" {
		return condaRecipe(r, platforms, usual)
	}
	out := &Recipe{Field: "containerFile", ContainerFile: Decoded(r.GetContainerFile()), condaFile: Decoded(r.GetCondaFile())}
	if out.condaFile != "" {
		out.files = []*buildv1.File{{Path: "conda.yml", Content: []byte(out.condaFile)}}
	}
	var err error
	out.Parts, err = out.perPlatform(out.ContainerFile, platforms)
	return out, err
}

func condaRecipe(r *containerv1.ContainerRequest, platforms []ocispec.Platform, usual conda.Images) (*Recipe, error) {
	var c conda.Recipe
	var err error
	if file := Decoded(r.GetCondaFile()); file != "" {
		c, err = conda.ReadFile(file, usual)
	} else {
		c, err = conda.Read(r.GetPackages(), Decoded(r.GetPackages().GetEnvironment()), usual)
	}
	if err != nil {
		return nil, err
	}
	out := &Recipe{
		Packages: c.Packages(),
		Field:    "packages.condaOpts", ContainerFile: c.Dockerfile(), files: c.Files(),
		condaFile: c.Environment.Text(), names: c.Naming(), LockURL: c.LockURL, IsBase: c.IsBase,
		afterwards: afterwards{lines: c.Lines(), files: c.StepFiles()},
	}
	if out.Base, err = oci.ParseReference(c.BaseImage()); err != nil {
		return nil, fault.In("packages.condaOpts.baseImage", err)
	}
	switch {
	// Who installs is the caller's choice, and may know better.
	case r.GetBuildTemplate() != "":
		out.Packages, out.Steps = nil, "buildTemplate"
	case r.GetPackages().GetCondaOpts().GetMambaImage() != "":
		out.Packages, out.Steps = nil, "packages.condaOpts.mambaImage"
	default:
		out.Steps = c.Steps()
	}
	if out.Parts, err = out.perPlatform(out.ContainerFile, platforms); err != nil {
		return nil, err
	}
	out.afterwards.parts, err = out.perPlatform("FROM "+c.BaseImage()+"\n"+out.afterwards.lines, platforms)
	return out, err
}

// perPlatform reads a Dockerfile once, and which images it needs for each platform.
func (r *Recipe) perPlatform(text string, platforms []ocispec.Platform) ([]Part, error) {
	file, err := dockerfile.Read(text)
	if err != nil {
		return nil, fault.In(r.Field, err)
	}
	var parts []Part
	for _, p := range platforms {
		images, err := file.Images(p)
		if err != nil {
			return nil, fault.In(r.Field, err)
		}
		parts = append(parts, Part{p, images})
	}
	return parts, nil
}

// checkRefresh wants something that can be solved anew. The recipe is nil for an image.
func checkRefresh(r *containerv1.ContainerRequest, of *Recipe) error {
	if r.GetRefresh() && (of == nil || of.Packages == nil) {
		return fault.Invalid.Newf("refresh has Conda packages solved anew: it takes packages or condaFile, without buildTemplate, packages.condaOpts.mambaImage and the address of a lock")
	}
	return nil
}

// checkRecipe looks at the form of what is to be built.
func checkRecipe(r *containerv1.ContainerRequest) error {
	p := r.GetPackages()
	if !isEmptyPackages(p) {
		switch p.GetType() {
		case "CONDA":
		case "CRAN":
			return fault.Invalid.Newf("packages.type CRAN is not supported yet; use CONDA")
		default:
			return fault.Invalid.Newf("packages.type must be CONDA, not %q", fault.Quote(p.GetType()))
		}
		if (p.GetEnvironment() == "") == (len(p.GetEntries()) == 0) {
			return fault.Invalid.Newf("packages needs either environment or entries")
		}
	}
	for _, f := range []sized{
		{"containerFile", r.GetContainerFile(), limits.ContainerFile},
		{"condaFile", r.GetCondaFile(), limits.EnvironmentFile},
		{"packages.environment", p.GetEnvironment(), limits.EnvironmentFile},
	} {
		if len(f.value) > limits.Encoded {
			return fault.Invalid.Newf("%s is %d characters long; the maximum is %d", f.field, len(f.value), limits.Encoded)
		}
		raw, err := Decode(f.value)
		if err != nil {
			return fault.Invalid.New(f.field+" must be base64", err)
		}
		if len(raw) > f.most {
			return fault.Invalid.Newf("%s holds %d bytes; the maximum is %d", f.field, len(raw), f.most)
		}
		if f.field == "containerFile" && r.GetFormat() == "sif" && strings.HasPrefix(string(raw), "Bootstrap:") {
			return fault.Invalid.Newf("containerFile is a Singularity definition, which is not supported; give a Dockerfile")
		}
	}
	return nil
}
