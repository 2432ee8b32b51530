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

// A Reference is a fully qualified image name. Exactly one of Tag and Digest is set.
type Reference struct {
	// Registry is the host, with the port if one was specified, e.g. "docker.io".
	Registry string
	// Repository is the path, e.g. "library/ubuntu".
	Repository string
	Tag        string
	Digest     digest.Digest
}

// ParseReference parses an image name like container engines do. The default registry is
// docker.io, where "library/" is added to a path of one component. The default tag is "latest".
// A tag is ignored if the name has a digest. It returns fault.Invalid for invalid names.
func ParseReference(s string) (Reference, error) {
	switch {
	case s == "":
		return Reference{}, fault.Invalid.Newf("the image name is empty")
	case len(s) > limits.Name: // checked before regular expressions are applied
		return Reference{}, fault.Invalid.Newf("%q is too long for an image name: it has %d bytes, and the limit is %d", fault.Quote(s), len(s), limits.Name)
	case strings.Contains(s, "://"):
		return Reference{}, fault.Invalid.Newf("%q must not have a scheme; write e.g. docker.io/library/ubuntu:24.04", fault.Quote(s))
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return Reference{}, fault.Invalid.Newf("%q must not contain spaces or control characters", fault.Quote(s))
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

// ParseRepository parses `<registry>/<path>` without a tag. It returns fault.Invalid for
// other input.
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

// Identifier returns the digest if there is one, otherwise the tag.
func (r Reference) Identifier() string {
	if r.Digest != "" {
		return r.Digest.String()
	}
	return r.Tag
}

// String returns the fully qualified name, e.g. "docker.io/library/ubuntu:24.04".
func (r Reference) String() string {
	return r.Registry + "/" + r.Repository + Suffix(r.Identifier())
}

// Suffix returns a tag or digest with its separator: ":24.04", "@sha256:…".
func Suffix(identifier string) string {
	if strings.Contains(identifier, ":") {
		return "@" + identifier
	}
	return ":" + identifier
}

// IsTag reports whether s is a valid tag.
func IsTag(s string) bool { return reference.TagRegexp.FindString(s) == s && s != "" && len(s) <= 128 }
