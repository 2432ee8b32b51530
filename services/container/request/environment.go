package request

import (
	"strings"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// NoBase is stored as the base image of the locks of environments, which have none.
const NoBase = digest.Digest("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") // of nothing

// checkEnvironment follows gateway/contract/container-service.md#environments-without-an-image. What requires
// build steps is rejected when the packages are read.
func (p Parsed) checkEnvironment() error {
	r := p.Raw
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"mount", r.GetMount()},
		{"mirror", r.GetMirror()},
		{"soci", r.GetSoci()},
		{"buildCompression", compressionOf(r) != nil},
		{"containerConfig", !isEmptyConfig(r.GetContainerConfig())},
		{"containerIncludes", len(p.Includes) > 0},
		{"buildContext", r.GetBuildContext().GetLocation() != ""},
		{"cacheRepository", r.GetCacheRepository() != ""},
	} {
		if f.given {
			return fault.Invalid.Newf("format environment and %s exclude each other: an environment is mounted and has no image; leave one of them out", f.name)
		}
	}
	switch {
	case r.GetContainerImage() != "" || r.GetContainerFile() != "" || isEmptyPackages(r.GetPackages()) && r.GetCondaFile() == "":
		return fault.Invalid.Newf("format environment is for Conda packages: request packages or condaFile, or another format")
	case strings.Contains(r.GetContainerPlatform(), ","):
		return fault.Invalid.Newf("containerPlatform must be one platform for an environment; request each of them")
	}
	return nil
}

// environmentOf returns packages that are mounted without an image. Nothing can be run on them, and they have no
// base image.
func (p Parsed) environmentOf(c conda.Recipe, out Packages) (Packages, error) {
	switch field := c.OwnBase(); {
	case out.Steps != "":
		return out, fault.Invalid.Newf("format environment is for packages that are mounted as they are, but %s requires build steps; leave it out, or request an image", out.Steps)
	case field != "":
		return out, fault.Invalid.Newf("%s and format environment exclude each other: an environment has no base image; leave it out, or request an image", field)
	}
	out.Base, out.after = oci.Reference{}, Dockerfile{Field: PackagesField}
	for _, platform := range p.Platforms {
		out.after.Parts = append(out.after.Parts, Part{Platform: platform})
	}
	return out, nil
}
