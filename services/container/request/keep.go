package request

import (
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
)

// checkKeep follows gateway/contract/container-service.md#kept-images. What requires build steps is
// rejected when the packages are read.
func (p Parsed) checkKeep() error {
	r := p.Raw
	switch config := r.GetContainerConfig(); {
	case r.GetContainerFile() != "" || isEmptyPackages(r.GetPackages()) && r.GetCondaFile() == "":
		return fault.Invalid.Newf("keep is for Conda packages: request packages or condaFile, or leave it out")
	case len(p.Includes) > 0 || len(config.GetLayers()) > 0 || !isEmptyConfig(config):
		return fault.Invalid.Newf("keep and containerConfig or containerIncludes exclude each other: a kept image has the packages only, so that it can be made again")
	case r.GetFreeze() || r.GetMirror() || r.GetBuildRepository() != "" || r.GetCacheRepository() != "":
		return fault.Invalid.Newf("keep and freeze, mirror, buildRepository or cacheRepository exclude each other: this server stores kept images in its own repository")
	case r.GetNameStrategy() != "":
		return fault.Invalid.Newf("keep and nameStrategy exclude each other: the name of a kept image follows from its packages")
	case r.GetScanMode() == ScanRequired:
		return fault.Invalid.Newf("keep and scanMode required exclude each other: the name of a kept image belongs to all callers; use async")
	}
	return nil
}

// A KeptName is the name of a kept image below its ID.
type KeptName struct{ Name, Tag string }

// KeptName returns the name of an image of Conda packages. The zero value is returned for other images.
func (p BuildPlan) KeptName() KeptName {
	name, tag := p.names.Words()
	return KeptName{name, tag}
}

// Requested returns the specifications of the packages, without those of every environment, and the names
// of their packages. Both are empty for a lock.
func (p Packages) Requested() (specs []string, names map[string]bool) {
	names = map[string]bool{}
	for _, item := range p.conda.Environment.Requirements {
		specs = append(specs, strings.ReplaceAll(item.Text, "\n", " "))
		if name, ok := conda.NameOf(item.Text); ok {
			names[name] = true
		}
	}
	return specs, names
}

// Kept returns a build in the form that makes a kept image at any time, for any caller. Its packages are not
// solved again if one of them no longer exists: then the image would be another one.
func Kept(b *buildv1.SubmitBuildRequest) {
	b.SolvedFrom = nil
	for _, part := range b.GetParts() {
		Kept(part)
	}
}
