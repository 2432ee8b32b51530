package oci

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Reference is a fully qualified image name. Exactly one of Tag and Digest is
// set.
type Reference struct {
	// Registry is the host, with its port where one was given, e.g. "docker.io".
	Registry string
	// Repository is the path, e.g. "library/ubuntu".
	Repository string
	Tag        string
	Digest     digest.Digest
}

// ParseReference reads an image name as engines do: without a registry it is at
// docker.io, where a path of one part gets "library/"; without a tag it is
// "latest"; beside a digest a tag means nothing. fault.Invalid otherwise.
func ParseReference(s string) (Reference, error) {
	switch {
	case s == "":
		return Reference{}, fault.Invalid.Newf("the image name is empty")
	case len(s) > limits.Name: // before a pattern is matched against it
		return Reference{}, fault.Invalid.Newf("%q is too long for an image name: it has %d bytes, at most %d are read", fault.Quote(s), len(s), limits.Name)
	case strings.Contains(s, "://"):
		return Reference{}, fault.Invalid.Newf("%q must not have a scheme; write e.g. docker.io/library/ubuntu:24.04", fault.Quote(s))
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return Reference{}, fault.Invalid.Newf("%q must not have blanks", fault.Quote(s))
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Reference{}, fault.Invalid.New(fmt.Sprintf("%q is not a valid image name (%v)", fault.Quote(s), err), nil)
	}
	ref := Reference{Registry: reference.Domain(named), Repository: reference.Path(named), Tag: "latest"}
	if t, ok := named.(reference.Tagged); ok {
		ref.Tag = t.Tag()
	}
	if d, ok := named.(reference.Digested); ok {
		if d.Digest().Algorithm() != digest.SHA256 {
			return Reference{}, fault.Invalid.Newf("%q has a digest that is not sha256", fault.Quote(s))
		}
		ref.Tag, ref.Digest = "", d.Digest()
	}
	return ref, nil
}

// ParseRepository reads `<registry>/<path>` without a tag. fault.Invalid
// otherwise.
func ParseRepository(s string) (registry, repository string, err error) {
	ref, err := ParseReference(s)
	if err != nil {
		return "", "", err
	}
	host, _, ok := strings.Cut(s, "/")
	if !ok || (!strings.ContainsAny(host, ".:") && host != "localhost") {
		return "", "", fault.Invalid.Newf("%q must start with its registry, e.g. quay.io/team/images", fault.Quote(s))
	}
	if ref.Digest != "" || strings.HasSuffix(s, ":"+ref.Tag) {
		return "", "", fault.Invalid.Newf("%q must not have a tag or digest", fault.Quote(s))
	}
	return ref.Registry, ref.Repository, nil
}

// Identifier is the tag, or the digest where there is one.
func (r Reference) Identifier() string {
	if r.Digest != "" {
		return r.Digest.String()
	}
	return r.Tag
}

// String is the fully qualified name, e.g. "docker.io/library/ubuntu:24.04".
func (r Reference) String() string {
	return r.Registry + "/" + r.Repository + Suffix(r.Identifier())
}

// Suffix is how a tag or digest hangs on a repository: ":24.04", "@sha256:…".
func Suffix(identifier string) string {
	if strings.Contains(identifier, ":") {
		return "@" + identifier
	}
	return ":" + identifier
}

// IsTag says whether s has the form of a tag.
func IsTag(s string) bool { return reference.TagRegexp.FindString(s) == s && s != "" && len(s) <= 128 }
