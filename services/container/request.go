package container

import (
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// checked is a request that keeps every rule which needs nobody else to answer.
type checked struct {
	raw      *containerv1.ContainerRequest
	image    oci.Reference // zero for a recipe
	recipe   *recipe       // nil for an image
	platform oci.Platform
	// parts are one request for each of two platforms; nil for one platform.
	parts []checked
	claim caller.Claim
}

// isRecipe says whether something has to be built.
func isRecipe(r *containerv1.ContainerRequest) bool {
	return r.GetContainerFile() != "" || r.GetCondaFile() != "" || !isEmptyPackages(r.GetPackages())
}

func isEmptyPackages(p *containerv1.Packages) bool {
	return p.GetType() == "" && p.GetEnvironment() == "" && len(p.GetEntries()) == 0
}

// rules is what the rules need beside the request.
type rules struct {
	// deprecated says that the request came by the deprecated path.
	deprecated bool
	// identify lets the caller in.
	identify func(caller.Claim) error
	// owns knows the service's own repositories.
	owns func(registry, repository string) bool
}

// check applies the rules in the order of the contract; the first that fails is
// the answer.
func (rs rules) check(r *containerv1.ContainerRequest) (checked, error) {
	c := checked{raw: r}
	var err error
	if c.claim, err = caller.ReadClaim(r); err != nil {
		return c, err
	}
	if c.platform, err = checkValues(r); err != nil {
		return c, err
	}
	if err := checkSizes(r); err != nil {
		return c, err
	}
	if c.image, err = rs.checkNames(r); err != nil {
		return c, err
	}
	if err := rs.identify(c.claim); err != nil {
		return c, err
	}
	if err := checkContent(r); err != nil {
		return c, err
	}
	if rs.deprecated {
		if err := checkDeprecated(r); err != nil {
			return c, err
		}
	}
	if err := checkFreeze(r); err != nil {
		return c, err
	}
	if c.recipe, err = readRecipe(r, c.platform); err != nil {
		return c, err
	}
	return c, c.divide()
}

// divide makes two of a request for two platforms.
func (c *checked) divide() error {
	all, err := oci.ParsePlatforms(c.raw.GetContainerPlatform())
	if err != nil || len(all) < 2 {
		return err
	}
	for _, p := range all {
		part := *c
		part.platform = p
		if part.recipe, err = readRecipe(c.raw, p); err != nil {
			return err
		}
		c.parts = append(c.parts, part)
	}
	return nil
}

// checkNames follows gateway/contract/container-service.md#names.
func (rs rules) checkNames(r *containerv1.ContainerRequest) (oci.Reference, error) {
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
		if rs.owns(registry, repository) {
			return oci.Reference{}, fault.Invalid.Newf("%s: %s belongs to this service; name a repository of your own", f.name, clip(f.value))
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
	case !image && !isRecipe(r):
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
		return fault.Invalid.Newf("freeze needs buildRepository: the repository that the image is pushed to")
	case r.GetFormat() == formatSif && !r.GetFreeze():
		return fault.Invalid.Newf("format sif needs freeze and buildRepository: a Singularity image is pushed to your own repository")
	case r.GetFormat() == formatSif && strings.Contains(r.GetContainerPlatform(), ","):
		return fault.Invalid.Newf("containerPlatform must be one platform for a Singularity image")
	}
	return nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
