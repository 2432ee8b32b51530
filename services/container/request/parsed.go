// Package request represents container requests as stages. Each stage is a value that is
// complete when it is made: Parsed holds valid fields, Resolved adds the caller, the recipe
// and the included images, and a BuildPlan is one way to build the image. Build returns the
// message of a plan to the build service. The package calls no other service: information
// from others, such as the Solution of Conda packages, is passed in.
package request

import (
	"slices"
	"strings"
	"unicode"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// A Parsed is a container request whose fields satisfy all rules that need no other service.
type Parsed struct {
	// Raw is the request with digests in lower case.
	Raw   *containerv1.ContainerRequest
	Claim caller.Claim
	// Image is the existing image that is requested; zero for a recipe.
	Image    oci.Reference
	Includes []oci.Reference
	// Platforms lists one platform, or two for some recipes.
	Platforms []ocispec.Platform
}

// Parse performs the checks before authentication, in the order of
// gateway/contract/container-service.md, and returns the first error. owns reports whether a
// repository belongs to the service.
func Parse(raw *containerv1.ContainerRequest, owns func(registry, repository string) bool) (Parsed, error) {
	raw = lowerDigests(raw)
	p := Parsed{Raw: raw}
	var err error
	if p.Claim, err = caller.ReadClaim(raw); err != nil {
		return p, err
	}
	if p.Platforms, err = checkValues(raw); err != nil {
		return p, err
	}
	if err := checkSizes(raw); err != nil {
		return p, err
	}
	if p.Image, err = checkNames(raw, owns); err != nil {
		return p, err
	}
	p.Includes, err = checkIncludes(raw)
	return p, err
}

// CheckContent performs the checks after authentication that need no recipe. deprecated
// reports whether the request used the deprecated path.
func (p Parsed) CheckContent(deprecated bool) error {
	if p.IsEnvironment() {
		if err := p.checkEnvironment(); err != nil {
			return err
		}
	}
	if p.Raw.GetMount() {
		if err := p.checkMount(); err != nil {
			return err
		}
	}
	switch {
	case p.Raw.GetKeep():
		if err := p.checkKeep(); err != nil {
			return err
		}
	case p.Raw.GetKeepScope() != "":
		return fault.Invalid.Newf("keepScope needs keep: it says for whom an image is kept")
	}
	if p.Raw.GetMirror() {
		return p.checkMirror()
	}
	if err := checkContent(p.Raw); err != nil {
		return err
	}
	if deprecated {
		if err := checkDeprecated(p.Raw); err != nil {
			return err
		}
	}
	return checkFreeze(p.Raw)
}

// Platform returns the platform of an image.
func (p Parsed) Platform() ocispec.Platform { return p.Platforms[0] }

// IsSif reports whether a Singularity image is requested.
func (p Parsed) IsSif() bool { return p.Raw.GetFormat() == FormatSif }

// IsEnvironment reports whether an environment without an image is requested.
func (p Parsed) IsEnvironment() bool { return p.Raw.GetFormat() == FormatEnvironment }

// IsPermanent reports whether the request's additions become part of an image that outlives every
// name. A mirror has no additions.
func (p Parsed) IsPermanent() bool { return p.Raw.GetFreeze() || p.Raw.GetMirror() || p.IsSif() }

// IsRecipe reports whether a request requires a build.
func IsRecipe(r *containerv1.ContainerRequest) bool {
	return r.GetContainerFile() != "" || r.GetCondaFile() != "" || !isEmptyPackages(r.GetPackages())
}

func isEmptyPackages(p *containerv1.Packages) bool {
	return p.GetType() == "" && p.GetEnvironment() == "" && len(p.GetEntries()) == 0
}

// checkNames follows gateway/contract/container-service.md#names.
func checkNames(r *containerv1.ContainerRequest, owns func(registry, repository string) bool) (oci.Reference, error) {
	for _, f := range []struct{ name, value string }{
		{"buildRepository", r.GetBuildRepository()}, {"cacheRepository", r.GetCacheRepository()},
	} {
		if f.value == "" {
			continue
		}
		registry, repository, err := oci.ParseRepository(f.value)
		if err != nil {
			return oci.Reference{}, fault.In(f.name, err)
		}
		if owns(registry, repository) {
			return oci.Reference{}, fault.Invalid.Newf("%s: %s belongs to this service; name a repository of your own", f.name, fault.Quote(f.value))
		}
	}
	if r.GetContainerImage() == "" {
		return oci.Reference{}, nil
	}
	ref, err := oci.ParseReference(r.GetContainerImage())
	if err != nil {
		return ref, fault.In("containerImage", err)
	}
	return ref, nil
}

// checkContent follows gateway/contract/container-service.md#content.
func checkContent(r *containerv1.ContainerRequest) error {
	image, file, packages := r.GetContainerImage() != "", r.GetContainerFile() != "", !isEmptyPackages(r.GetPackages())
	switch {
	case !image && !IsRecipe(r):
		return fault.Invalid.Newf("containerImage is missing; give it, or containerFile, packages or condaFile")
	case image && file:
		return fault.Invalid.Newf("containerImage and containerFile exclude each other")
	case image && packages:
		return fault.Invalid.Newf("containerImage and packages exclude each other")
	case image && r.GetCondaFile() != "":
		return fault.Invalid.Newf("containerImage and condaFile exclude each other")
	case file && packages:
		return fault.Invalid.Newf("containerFile and packages exclude each other")
	case packages && r.GetCondaFile() != "":
		return fault.Invalid.Newf("packages and condaFile exclude each other")
	}
	return nil
}

// checkDeprecated follows gateway/contract/container-service.md#deprecated-path.
func checkDeprecated(r *containerv1.ContainerRequest) error {
	if !isEmptyPackages(r.GetPackages()) {
		return fault.Invalid.Newf("packages needs the path /v1alpha2/container")
	}
	if r.GetNameStrategy() != "" {
		return fault.Invalid.Newf("nameStrategy needs the path /v1alpha2/container")
	}
	return nil
}

// checkFreeze follows gateway/contract/container-service.md#freezing and
// #singularity-images.
func checkFreeze(r *containerv1.ContainerRequest) error {
	switch {
	case r.GetFreeze() && r.GetBuildRepository() == "":
		return fault.Invalid.Newf("freeze needs buildRepository: the repository to push the image to")
	case r.GetFormat() == FormatSif && strings.Contains(r.GetContainerPlatform(), ","):
		return fault.Invalid.Newf("containerPlatform must be one platform for a Singularity image")
	}
	return nil
}

// lowerDigests returns a request whose layers have lower-case digests, which all
// comparisons require: hexadecimal digits are case-insensitive.
func lowerDigests(r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	layers := func(r *containerv1.ContainerRequest) []*containerv1.Layer {
		return append(slices.Clone(r.GetContainerConfig().GetLayers()), r.GetBuildContext())
	}
	isUpper := func(l *containerv1.Layer) bool {
		return hasUpper(l.GetGzipDigest()) || hasUpper(l.GetTarDigest())
	}
	if !slices.ContainsFunc(layers(r), isUpper) {
		return r
	}
	r = proto.CloneOf(r)
	for _, l := range layers(r) {
		if l != nil {
			l.GzipDigest, l.TarDigest = strings.ToLower(l.GetGzipDigest()), strings.ToLower(l.GetTarDigest())
		}
	}
	return r
}

func hasUpper(s string) bool { return strings.ContainsFunc(s, unicode.IsUpper) }
