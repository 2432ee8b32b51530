package request

import (
	"encoding/json"
	"fmt"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
)

// For whom an image is kept (ContainerRequest.keep_scope). "" is KeepPublic.
const (
	KeepPublic       = "public"
	KeepOrganization = "organization"
)

// checkKeep follows gateway/contract/container-service.md#kept-images. What requires build steps is
// rejected when the packages are read.
func (p Parsed) checkKeep() error {
	r := p.Raw
	switch config := r.GetContainerConfig(); {
	case r.GetKeepScope() == KeepOrganization && r.GetDryRun():
		return fault.Invalid.Newf("keepScope organization and dryRun exclude each other: the name of the image is made when it is kept")
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

// NameOfKept returns the name of an image that is kept: the requested packages, or those of a lock that no other
// package needs, with their versions. The name of an environment is not used, since it could mislead others.
func NameOfKept(of Packages, lock *Locked) (KeptName, error) {
	names := of.conda.ItemNaming()
	if names.IsZero() {
		var records []spec.Record
		if err := json.Unmarshal([]byte(lock.GetRecords()[0]), &records); err != nil {
			return KeptName{}, fmt.Errorf("reading the records of a lock: %w", err)
		}
		names = conda.NamingOf(roots(records)...)
	}
	name, tag := names.In(lock.GetAnswer().GetLocks()[0].GetPackages()).Words()
	return KeptName{name, tag}, nil
}

// roots returns the names of the packages that no other package needs.
func roots(records []spec.Record) []string {
	needed := map[string]bool{}
	for _, r := range records {
		for _, name := range r.Needs() {
			needed[name] = true
		}
	}
	var out []string
	for _, r := range records {
		if !needed[r.Name] {
			out = append(out, r.Name)
		}
	}
	return out
}

// Requested returns the specifications of the packages, without those of every environment, and the names
// of their packages. Both are empty for a lock.
func (p Packages) Requested() (specs []string, names map[string]bool) {
	names = map[string]bool{}
	for _, item := range p.conda.Environment.Requirements {
		specs = append(specs, strings.Join(strings.Fields(item.Text), " "))
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
