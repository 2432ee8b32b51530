package fault

import (
	"strings"

	"google.golang.org/protobuf/proto"
)

// A Code identifies an error for programs: unlike the message it never changes. The REST API
// returns the code of a fault, or one that follows from the HTTP status. The page
// gateway/contract/errors.md lists them all.
type Code string

// The codes that are more precise than the kind of a fault.
const (
	// ObjectTaken is an object that exists already, so that it cannot be created or renamed.
	ObjectTaken Code = "object.taken"
	// ObjectChanged is an object that another request changed at the same time.
	ObjectChanged Code = "object.changed"
	// ObjectLimit is an object that cannot be created, because there are as many of its kind as are
	// allowed. The detail has the members what, the kind of objects, and limit, their maximum number.
	ObjectLimit Code = "object.limit"
	// TokenScope is an access token that lacks the scope that a call needs, or that is for another
	// workspace.
	TokenScope Code = "auth.scope"
	// CondaConflict is an environment without a solution. The detail is a
	// condav1.LockPackagesResponse with the conflict and suggestions.
	CondaConflict Code = "conda.conflict"
	// CondaChannel is a Conda channel that does not exist or that cannot be read.
	CondaChannel Code = "conda.channel"
	// CondaNotFound is a package that a Conda channel does not have.
	CondaNotFound Code = "conda.notFound"
	// PatchRebuild is an image whose packages cannot be exchanged, so that it has to be built again.
	PatchRebuild Code = "patch.rebuild"
	// PatchMoves is a patch for which other packages must change than those that may. The detail is
	// a containerv1.PatchImageResponse with all changes.
	PatchMoves Code = "patch.moves"
	// PatchUnchanged is a patch that would change nothing.
	PatchUnchanged Code = "patch.unchanged"
	// BuildFailed is an image that does not exist, because its build failed.
	BuildFailed Code = "build.failed"
	// BuildRunning is an image that is still being built.
	BuildRunning Code = "build.running"
	// BuildUnsupported is a build for which there is no worker.
	BuildUnsupported Code = "build.unsupported"
	// ImageNotFound is an image that its registry does not have.
	ImageNotFound Code = "image.notFound"
	// ImagePlatform is an image that is not available for a platform.
	ImagePlatform Code = "image.platform"
	// ImageDenied is an image that its registry does not show to the caller. Many registries
	// respond alike for images that do not exist.
	ImageDenied Code = "image.denied"
	// RegistryLimit is a registry that received too many requests.
	RegistryLimit Code = "registry.limit"
	// RegistryUnavailable is a registry that cannot be reached or fails.
	RegistryUnavailable Code = "registry.unavailable"
	// PolicyRegistry is an image of a registry that the operator does not allow.
	PolicyRegistry Code = "policy.registry"
	// PolicyChannel is a Conda channel that the operator does not allow.
	PolicyChannel Code = "policy.channel"
	// PolicyAge is a Conda package that is not as old as the operator requires.
	PolicyAge Code = "policy.age"
	// PolicyLicense is a package with a licence that the operator refuses.
	PolicyLicense Code = "policy.license"
	// PolicySignature is an image without a signature that the operator requires.
	PolicySignature Code = "policy.signature"
)

// LimitCode returns the code of an exceeded limit: "limit.builds" for "builds", and
// "limit.deviceCodes" for "device codes".
func LimitCode(name string) Code {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '-' })
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return Code("limit." + strings.Join(words, ""))
}

// metaCode is the key of the code in the metadata of an ErrorInfo.
const metaCode = "code"

// maxDetail is the maximum size of a detail in bytes. Details are transmitted in the trailers
// of a call, whose size gRPC limits.
const maxDetail = 256 << 10

// WithCode sets Code and returns e.
func (e *Error) WithCode(c Code) *Error {
	e.Code = c
	return e
}

// WithDetail sets Detail and returns e. A detail of more than maxDetail bytes is left out.
func (e *Error) WithDetail(m proto.Message) *Error {
	if proto.Size(m) <= maxDetail {
		e.Detail = m
	}
	return e
}

// To returns a fault of another kind with the message, code and detail of e, and e as its
// cause. It is for errors whose meaning depends on the place, e.g. an image that does not
// exist, which is an invalid request if the request names it.
func (e *Error) To(k Kind) *Error {
	return &Error{Kind: k, Public: e.Public, Code: e.Code, Detail: e.Detail, Cause: e}
}
