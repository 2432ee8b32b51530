package oci

import (
	"strings"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// An IssuedName is the repository of an image name that the service has issued:
// "wt/<token>/<name>".
type IssuedName struct{ Token, Name string }

// ParseIssued parses a repository. ok is false unless it has the form of an issued name.
func ParseIssued(repository string) (n IssuedName, ok bool) {
	rest, isIssued := strings.CutPrefix(repository, "wt/")
	n.Token, n.Name, _ = strings.Cut(rest, "/")
	return n, isIssued && n.Token != "" && n.Name != ""
}

// String returns the repository.
func (n IssuedName) String() string { return "wt/" + n.Token + "/" + n.Name }

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
