package oci

import (
	"strings"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// An IssuedName is the repository of an image name that the service has issued:
// "wt/<token>/<name>" or, for an image that is kept for ever, "c/<id>/<name>", whose id is the token.
type IssuedName struct{ Token, Name string }

// KeptRepository is the repository of kept images, below the service's own repository of builds.
const KeptRepository = "kept"

// IsKeptRepository reports whether a repository, which must be one of builds, is that of kept images.
func IsKeptRepository(repository string) bool {
	return strings.HasSuffix(repository, "/"+KeptRepository)
}

const (
	tokenPrefix = "wt/"
	keptPrefix  = "c/"
)

// KeptSecret is the beginning of the id of a kept image that belongs to an organisation. A token, which gives access to
// the image, follows.
const KeptSecret = "org-"

// IsKeptID reports whether s has the form of the id of a kept image: 16 hex digits, or KeptSecret and a token of 26
// characters of base32.
func IsKeptID(s string) bool {
	if token, isSecret := strings.CutPrefix(s, KeptSecret); isSecret {
		return len(token) == 26 && strings.Trim(token, "abcdefghijklmnopqrstuvwxyz234567") == ""
	}
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}

// IsSecretKeptID reports whether the id of a kept image is a secret: that of an image of an organisation.
func IsSecretKeptID(id string) bool { return strings.HasPrefix(id, KeptSecret) }

// ParseIssued parses a repository. ok is false unless it has the form of an issued name.
func ParseIssued(repository string) (n IssuedName, ok bool) {
	rest, isKept := strings.CutPrefix(repository, keptPrefix)
	if !isKept {
		if rest, ok = strings.CutPrefix(repository, tokenPrefix); !ok {
			return n, false
		}
	}
	n.Token, n.Name, _ = strings.Cut(rest, "/")
	return n, n.Token != "" && n.Name != "" && IsKeptID(n.Token) == isKept
}

// String returns the repository.
func (n IssuedName) String() string {
	if IsKeptID(n.Token) {
		return keptPrefix + n.Token + "/" + n.Name
	}
	return tokenPrefix + n.Token + "/" + n.Name
}

// ReferenceOf returns the image of a plan.
func ReferenceOf(src *containerv1.Source) Reference {
	out := Reference{Registry: src.GetRegistry(), Repository: src.GetRepository()}
	if d, err := digest.Parse(src.GetReference()); err == nil {
		out.Digest = d
	} else {
		out.Tag = src.GetReference()
	}
	return out
}
