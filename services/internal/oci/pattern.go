package oci

import (
	"regexp"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A RepositoryPattern is a repository with its registry, e.g. "docker.io/library/debian", or all
// repositories below a path, e.g. "ghcr.io/lab/*" or "ghcr.io/*". It is in the form that
// ParseRepositoryPattern returns; the zero value matches nothing.
type RepositoryPattern string

// everythingBelow ends the pattern of all repositories below a path.
const everythingBelow = "/*"

const (
	hostComponent = `[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?`
	pathComponent = `/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*`
)

// patternForm is also declared by the fields `repositories` in proto/slipway/platform/v1.
var patternForm = regexp.MustCompile(`^(` + hostComponent + `(\.` + hostComponent + `)+(:[0-9]{1,5})?|` + hostComponent + `:[0-9]{1,5}|localhost)` +
	`(` + pathComponent + `)*(` + pathComponent + `|/\*)$`)

// RepositoryPatternForm returns the regular expression that patterns match.
func RepositoryPatternForm() string { return patternForm.String() }

// ParseRepositoryPattern parses a pattern and returns its normal form: the host in lower case,
// docker.io for all names of Docker Hub, and "library/" before an exact repository of one
// component there. It returns fault.Invalid for any other input, such as a tag, a digest, a name
// without a registry, or "*" elsewhere than after the last "/".
func ParseRepositoryPattern(s string) (RepositoryPattern, error) {
	if len(s) > limits.TokenRepository {
		return "", fault.Invalid.Newf("%q has %d bytes; the limit is %d", fault.Quote(s), len(s), limits.TokenRepository)
	}
	if !patternForm.MatchString(s) {
		return "", fault.Invalid.Newf("%q must be a repository with its registry and without a tag, e.g. docker.io/library/debian, or everything below a path, e.g. ghcr.io/lab/*", fault.Quote(s))
	}
	host, path, _ := strings.Cut(s, "/")
	return RepositoryPattern(qualified(host, path)), nil
}

// qualified returns the name that patterns are compared with.
func qualified(host, path string) string {
	host = CanonicalHost(strings.ToLower(host))
	if host == "docker.io" && path != "*" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return host + "/" + path
}

// Matches reports whether a repository is the one of the pattern, or below its path.
func (p RepositoryPattern) Matches(host, repository string) bool {
	return p.matches(qualified(host, repository))
}

// Covers reports whether the pattern matches all repositories that other matches.
func (p RepositoryPattern) Covers(other RepositoryPattern) bool {
	return p.matches(string(other))
}

func (p RepositoryPattern) matches(name string) bool {
	path, isPath := strings.CutSuffix(string(p), everythingBelow)
	if isPath {
		return path != "" && strings.HasPrefix(name, path+"/")
	}
	return p != "" && name == string(p)
}
