package request

import (
	"cmp"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// checkMirror follows gateway/contract/container-service.md#mirrors.
func (p Parsed) checkMirror() error {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"containerFile", p.Raw.GetContainerFile() != ""},
		{"packages", !isEmptyPackages(p.Raw.GetPackages())},
		{"condaFile", p.Raw.GetCondaFile() != ""},
		{"freeze", p.Raw.GetFreeze()},
		{"format sif", p.IsSif()},
		{"containerIncludes", len(p.Includes) > 0},
		{"containerConfig", !isEmptyConfig(p.Raw.GetContainerConfig())},
	} {
		if f.given {
			return fault.Invalid.Newf("mirror and %s exclude each other: a mirror is an exact copy of an image", f.name)
		}
	}
	switch {
	case p.Raw.GetContainerImage() == "":
		return fault.Invalid.Newf("mirror needs containerImage: the image to copy")
	case p.Raw.GetBuildRepository() == "":
		return fault.Invalid.Newf("mirror needs buildRepository: the repository to copy the image to")
	}
	return nil
}

// isEmptyConfig reports whether a configuration adds nothing to an image.
func isEmptyConfig(c *containerv1.ContainerConfig) bool {
	return len(c.GetEntrypoint()) == 0 && len(c.GetCmd()) == 0 && len(c.GetEnv()) == 0 && c.GetWorkingDir() == "" && len(c.GetLayers()) == 0
}

// MirrorTarget returns the target of a mirror: the requested repository, followed by the path and
// the tag of the source. A source without a tag keeps its digest. It returns fault.Invalid if the
// requested repository is that of the source.
func (r Resolved) MirrorTarget() (*buildv1.Target, error) {
	registry, path, err := oci.ParseRepository(r.Raw.GetBuildRepository())
	if err != nil {
		return nil, err
	}
	t := &buildv1.Target{Registry: registry, Repository: path + "/" + r.Image.Repository, Tag: r.Image.Tag}
	if t.Tag == "" {
		t.Digest = r.Image.Digest.String()
	}
	if registry == r.Image.Registry && path == r.Image.Repository {
		return nil, fault.Invalid.Newf("buildRepository: that is the repository of the image itself; name another one")
	}
	if _, _, err := oci.ParseRepository(registry + "/" + t.GetRepository()); err != nil {
		return nil, fault.In("buildRepository", err)
	}
	return t, nil
}

// BuildMirror returns the message for a copy of an image by digest to a target.
func (r Resolved) BuildMirror(d digest.Digest, to *buildv1.Target, clientIP string) *buildv1.SubmitBuildRequest {
	recipe := &buildv1.Recipe{
		Engine: "mirror", Format: "oci",
		Source: &containerv1.Source{Registry: r.Image.Registry, Repository: r.Image.Repository, Reference: d.String()},
	}
	scope := ScopeOf(caller.Of(r.Caller))
	place := Destination{Registry: to.GetRegistry(), Repository: to.GetRepository() + " " + cmp.Or(to.GetTag(), to.GetDigest()), Scope: scope}
	out := r.message(recipe, ContentDigest(recipe, place), conda.Naming{}, Destination{Scope: scope}, clientIP)
	out.Target = to
	return out
}
