// Package request is what a container request says: its fields held to their rules, and the
// recipes and content digests that follow from them. It asks nobody: what others know, such
// as the packages that it stands for, is handed in.
package request

import (
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// Request is a container request that keeps the rules which need nobody else to say
// whether it does.
type Request struct {
	Raw       *containerv1.ContainerRequest
	Claim     caller.Claim
	Image     oci.Reference // zero for a recipe
	Includes  []oci.Reference
	Platforms []ocispec.Platform // one; two for some recipes
	// Recipe is nil for an image, and until readContent.
	Recipe *Recipe
	// Foreseen is what its Conda packages stand for; the zero value is not known.
	Foreseen Foreseen
	// Included is what its includes stand for; the zero value is nothing.
	Included Inclusions
	// Given are the images of the service's own repository that the recipe may read, by
	// digest, with the scope of each ("" is everybody's); nil for none.
	Given map[oci.Reference]string
}

// Read checks what is checked before the caller is asked for, in the order of
// gateway/contract/container-service.md; the first rule that fails is the error.
func Read(raw *containerv1.ContainerRequest, owns func(registry, repository string) bool) (Request, error) {
	r := Request{Raw: raw}
	var err error
	if r.Claim, err = caller.ReadClaim(raw); err != nil {
		return r, err
	}
	if r.Platforms, err = checkValues(raw); err != nil {
		return r, err
	}
	if err := checkSizes(raw); err != nil {
		return r, err
	}
	if r.Image, err = checkNames(raw, owns); err != nil {
		return r, err
	}
	r.Includes, err = checkIncludes(raw)
	return r, err
}

// ReadContent checks what is checked once the caller is known, and reads the recipe.
// deprecated says that the request came by the deprecated path; usual are the images of
// Conda packages that name none.
func (r *Request) ReadContent(deprecated bool, usual conda.Images) error {
	if err := checkContent(r.Raw); err != nil {
		return err
	}
	if deprecated {
		if err := checkDeprecated(r.Raw); err != nil {
			return err
		}
	}
	if err := checkFreeze(r.Raw); err != nil {
		return err
	}
	if IsRecipe(r.Raw) {
		var err error
		if r.Recipe, err = readRecipe(r.Raw, r.Platforms, usual); err != nil {
			return err
		}
	}
	if err := checkCompressed(r.Raw, r.Recipe); err != nil {
		return err
	}
	return checkRefresh(r.Raw, r.Recipe)
}

// Platform is that of an image.
func (r Request) Platform() ocispec.Platform { return r.Platforms[0] }

// IsSif says whether a Singularity image is wanted.
func (r Request) IsSif() bool { return r.Raw.GetFormat() == FormatSif }

// AddsToSif says whether the file itself has to hold what the request adds, since nothing
// can be put on top of one when it is pulled. What is frozen holds it before.
func (r Request) AddsToSif() bool {
	return r.IsSif() && !r.Raw.GetFreeze() && r.Added() != nil
}

// IsRecipe says whether something has to be built.
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
