package request

import (
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/oci"
)

// A Resolved is a valid request whose caller, recipe and images are known.
type Resolved struct {
	Parsed
	// Who is the caller; nil if anonymous.
	Caller *platformv1.Identity
	Recipe
	Data Contents
	// SifKey identifies the key that signs Singularity images; "" for none.
	SifKey string
	// Included holds the layers of the included images.
	Included Inclusions
	// retained are the additions of an earlier request in place of those of this one; nil for none.
	retained *containerv1.ContainerConfig
	// KeepPackages reports whether the packages of an image to keep are stored beside it.
	KeepPackages bool
	// KeptAs is the name of an image to keep; the zero value for other images.
	KeptAs KeptName
	// Record is the request in the form that is stored: without contents, secrets and issued
	// names.
	Record *containerv1.ContainerRequest
}

// A Recipe is what an image is built from; the zero value is for an existing image.
type Recipe struct {
	// File is the Dockerfile of a request that has one, otherwise nil.
	File *Dockerfile
	// Packages are the Conda packages of a request that has no File, otherwise nil.
	Packages *Packages
	// Issued maps the images of the service's own repository that the request referred to by
	// issued names, by digest, to their scopes ("" for all callers); nil for none.
	Issued map[oci.Reference]string
}

// Contents holds the inline data of a request.
type Contents struct {
	// Layers maps gzipDigest to the content of the image's layers.
	Layers map[string][]byte
	// Context is the build context; nil without one, and for one at an address.
	Context []byte
}

// Added returns what the request adds to its image or build result, without contents; nil
// for nothing.
func (r Resolved) Added() *containerv1.ContainerConfig {
	if r.retained != nil {
		return r.retained
	}
	return r.With(r.Included)
}

// AddsToSif reports whether the Singularity file itself must contain the request's
// additions, because nothing can be added to it on pull. A frozen image contains them
// already.
func (r Resolved) AddsToSif() bool {
	return r.IsSif() && !r.Raw.GetFreeze() && r.Added() != nil
}

// Stored returns the request in the form that is stored. isIssued reports whether its image
// is an issued name, whose token is not stored.
func (p Parsed) Stored(isIssued bool, included Inclusions) *containerv1.ContainerRequest {
	out := &containerv1.ContainerRequest{
		ContainerImage:    p.Raw.GetContainerImage(),
		ContainerPlatform: p.Raw.GetContainerPlatform(),
		Timestamp:         p.Raw.GetTimestamp(),
		Fingerprint:       p.Raw.GetFingerprint(),
		WorkflowId:        p.Raw.GetWorkflowId(),
		Format:            p.Raw.GetFormat(),
		DryRun:            p.Raw.GetDryRun(),
		Freeze:            p.Raw.GetFreeze(),
		Mirror:            p.Raw.GetMirror(),
		Mount:             p.Raw.GetMount(),
		Soci:              p.Raw.GetSoci(),
		SociPrefetch:      p.Raw.GetSociPrefetch(),
		Keep:              p.Raw.GetKeep(),
		KeepScope:         p.Raw.GetKeepScope(),
		BuildRepository:   p.Raw.GetBuildRepository(),
		CacheRepository:   p.Raw.GetCacheRepository(),
		NameStrategy:      p.Raw.GetNameStrategy(),
		BuildTemplate:     p.Raw.GetBuildTemplate(),
		ContainerIncludes: included.Images,
		Compression:       p.Raw.GetCompression(),
		ScanMode:          p.Raw.GetScanMode(),
		ScanLevels:        p.Raw.GetScanLevels(),
	}
	if isIssued {
		out.ContainerImage = ""
	}
	// A run must not extend the life of a name beyond the names that it was made from.
	if isIssued && !p.IsPermanent() || !included.Until.IsZero() {
		out.WorkflowId = ""
	}
	return out
}
