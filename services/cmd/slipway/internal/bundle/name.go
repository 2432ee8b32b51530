package bundle

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/limits"
)

// A name is the name of an image as its users write it.
type name struct {
	// full is the name with its registry and its tag or digest.
	full       string
	registry   string
	repository string
	tag        string // "" for a name with a digest
	digest     string // "" for a name with a tag
}

// token matches the part of a repository that a server of Slipway adds to a name that it issues.
var token = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^wt/[A-Za-z0-9_-]+/`)
})

// parseName parses the name of an image. A name without a registry is one of Docker Hub, and one
// without a tag has the tag latest.
func parseName(s string) (name, error) {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "docker://"), orasScheme)
	r, err := ref.New(s)
	if err != nil || r.Scheme != "reg" || len(s) > limits.BundleName {
		return name{}, fmt.Errorf("%.100q is not the name of an image", s)
	}
	n := name{registry: r.Registry, repository: r.Repository, tag: r.Tag, digest: r.Digest}
	if n.digest != "" {
		n.tag = ""
	}
	n.full = n.registry + "/" + n.repository + n.reference()
	return n, nil
}

// reference returns the tag or digest with its separator.
func (n name) reference() string {
	if n.digest != "" {
		return "@" + n.digest
	}
	return ":" + n.tag
}

// withoutToken returns the name of an image that is the same for all requests.
func (n name) withoutToken() name {
	n.repository = token().ReplaceAllString(n.repository, "")
	n.full = n.registry + "/" + n.repository + n.reference()
	return n
}

// byDigest returns the name with a digest instead of its tag.
func (n name) byDigest(digest string) name {
	n.tag, n.digest = "", digest
	n.full = n.registry + "/" + n.repository + n.reference()
	return n
}

// orasScheme is the prefix of the names of Singularity images.
const orasScheme = "oras://"

// pullName returns the name that clients pull the image by.
func (n name) pullName(isSif bool) string {
	if isSif {
		return orasScheme + n.full
	}
	return n.full
}

// maxTag is the maximum length of a tag.
const maxTag = 128

// sif returns the name of the Singularity image of an image. A name without a tag, or with a long
// one, has none, and its reference is that of the image.
func (n name) sif() name {
	if n.tag == "" || len(n.tag)+len(sifSuffix) > maxTag {
		n.tag = ""
		return n
	}
	n.tag += sifSuffix
	n.full = n.registry + "/" + n.repository + n.reference()
	return n
}

// sifSuffix is the suffix of the tags of Singularity images.
const sifSuffix = ".sif"

// long returns a repository that is unique among all registries. Its first component is that of the
// registry.
func (n name) long() string {
	return strings.ReplaceAll(strings.Trim(strings.ToLower(n.registry), "[]"), ":", "_") + "/" + n.repository
}

// ref returns the name for a client of registries.
func (n name) ref() (ref.Ref, error) {
	r, err := ref.New(n.full)
	if err != nil {
		return r, fmt.Errorf("the name of the image %s: %w", n.full, err)
	}
	return r, nil
}
