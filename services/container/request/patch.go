package request

import (
	"encoding/base64"
	"strings"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
)

// An Earlier is an image of Conda packages that is to be patched.
type Earlier struct {
	// Record is its request in the form that is stored, and Added its additions; nil for none.
	Record *containerv1.ContainerRequest
	Added  *containerv1.ContainerConfig
	// Platform is its platforms, e.g. "linux/amd64,linux/arm64".
	Platform string
	// Parts are the requests of its builds, one for each platform.
	Parts []*buildv1.SubmitBuildRequest
}

// NewEarlier returns the image of a build. It returns fault.Invalid, with advice, for an image that
// was not assembled from Conda packages.
func NewEarlier(record *containerv1.ContainerRequest, plan *containerv1.Plan, b *buildv1.SubmitBuildRequest) (Earlier, error) {
	out := Earlier{Record: record, Added: plan.GetConfig(), Parts: b.GetParts()}
	if c := b.GetRecipe().GetConfig(); c != nil {
		out.Added = c
	}
	if len(out.Parts) == 1 && len(out.Parts[0].GetParts()) > 0 { // a Singularity image of an index
		out.Parts = out.Parts[0].GetParts()
	}
	if len(out.Parts) == 0 {
		out.Parts = []*buildv1.SubmitBuildRequest{b}
	}
	var all []string
	for _, p := range out.Parts {
		if err := checkPatchable(p); err != nil {
			return out, err
		}
		if c := p.GetRecipe().GetConfig(); c != nil {
			out.Added = c
		}
		all = append(all, p.GetRecipe().GetPlatform())
	}
	out.Platform = strings.Join(all, ",")
	return out, nil
}

// checkPatchable returns an error, with advice, unless the packages of a build can be exchanged.
func checkPatchable(p *buildv1.SubmitBuildRequest) error {
	var why string
	switch engine := p.GetRecipe().GetEngine(); {
	case engine == "buildkit" && p.GetLock() == nil:
		why = "The image was built from a Dockerfile, whose packages cannot be exchanged: build it again from a changed Dockerfile. `slipway describe` prints the Dockerfile, and `slipway build FILE` builds it"
	case engine == "buildkit":
		why = "The packages of the image were installed in build steps, and cannot be exchanged: request it again, without buildTemplate and mambaImage"
	case engine != "conda":
		why = "The image was not assembled from Conda packages by this server: patch the image that it was made from, and request this one again"
	case len(p.GetGivenImages()) > 0:
		why = "The image was built on an image that its request named by a token, which is not stored: request it again, with that name as base image"
	case p.GetRecipe().GetContext() != nil:
		why = "The image was built with a build context, which is not stored: request it again"
	case p.GetSolvedFrom().GetAsOf() != "" || p.GetSolvedFrom().GetExcludeNewer() != "":
		why = "The image was requested with asOf or minAge, which a patch would ignore: request it again, with another time or age"
	default:
		return nil
	}
	return fault.Invalid.New(why, nil).WithCode(fault.PatchRebuild)
}

// Locks returns the locks of all platforms; nil if they are not solved yet.
func (e Earlier) Locks() (out conda.Locks) {
	for _, p := range e.Parts {
		if p.GetLock() == nil {
			return nil
		}
		out = append(out, p.GetLock())
	}
	return out
}

// Request returns the request for the same image with the packages of another lock. Apply must be
// called with the parsed packages.
func (e Earlier) Request(lock string) *containerv1.ContainerRequest {
	from := e.Record
	packages := &containerv1.Packages{Type: "CONDA", Environment: base64.StdEncoding.EncodeToString([]byte(lock))}
	if source := e.Parts[0].GetRecipe().GetSource(); source != nil {
		packages.CondaOpts = &containerv1.CondaOptions{BaseImage: source.GetRegistry() + "/" + source.GetRepository() + "@" + source.GetReference()}
	}
	return &containerv1.ContainerRequest{
		Packages:          packages,
		ContainerPlatform: e.Platform, Format: from.GetFormat(), Freeze: from.GetFreeze(), Mount: from.GetMount(), Soci: from.GetSoci(), SociPrefetch: from.GetSociPrefetch(), BuildRepository: from.GetBuildRepository(),
		CacheRepository: from.GetCacheRepository(), NameStrategy: from.GetNameStrategy(), Keep: from.GetKeep(), KeepScope: from.GetKeepScope(), Compression: compressionAgain(e.Parts[0].GetRecipe().GetCompression()),
	}
}

// compressionAgain returns the compression of a recipe as a request states it: estargz implies force, which
// requests for Conda packages cannot have.
func compressionAgain(c *containerv1.Compression) *containerv1.Compression {
	out := proto.CloneOf(c)
	if out.GetMode() == modeEstargz {
		out.Force = false
	}
	return out
}

// Apply sets what a lock does not contain in the packages of a request that Request has returned:
// the steps, the variables and the options of the earlier image. All of them were validated when
// the earlier image was requested.
func (e Earlier) Apply(p Parsed, to *Packages) error {
	recipe := e.Parts[0].GetRecipe()
	to.conda = to.conda.Patched(recipe.GetCondaFile(), recipe.GetCondaOptions(), recipe.GetVariables())
	if p.IsEnvironment() { // nothing is run on it
		return nil
	}
	after, err := readDockerfile(PackagesField, "FROM "+to.conda.BaseImage()+"\n"+recipe.GetContainerFile(), p.Platforms)
	if err != nil {
		return err
	}
	after.text, after.files = recipe.GetContainerFile(), recipe.GetFiles()
	to.after = after
	if after.text != "" || len(after.files) > 0 {
		to.Steps = "the build steps of the image"
	}
	return nil
}

// Retain returns the request with the additions of an earlier image, whose layers are stored
// already, in place of its own.
func (r Resolved) Retain(added *containerv1.ContainerConfig) Resolved {
	r.retained = added
	return r
}
