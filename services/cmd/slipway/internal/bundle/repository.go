package bundle

import (
	"cmp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// A repository is a repository that a bundle serves.
type repository struct {
	tags map[string]digest.Digest
}

// repositories returns the repositories of a bundle by path, and the path and reference of each image
// by its full name. A path is that of the image at its registry. If images of two registries have the
// same path and tag, the first has it. With the name of its registry in front, each image has a path
// of its own, which no other image has without that name. Images of Docker Hub also have the paths
// without library/. An image whose tag is that of another on both paths has a reference with its digest.
func (c *content) repositories() (repos map[string]*repository, at map[string]string) {
	repos, at = map[string]*repository{}, map[string]string{}
	add := func(path, tag string, d digest.Digest) bool {
		r := repos[path]
		if r == nil {
			r = &repository{tags: map[string]digest.Digest{}}
			repos[path] = r
		}
		if tag == "" {
			return true
		}
		if other, ok := r.tags[tag]; ok {
			return other == d
		}
		r.tags[tag] = d
		return true
	}
	for _, i := range c.images {
		n := i.name
		if !add(n.long(), n.tag, i.root.Digest) {
			n = n.byDigest(i.root.Digest.String())
		}
		at[i.full] = n.long() + n.reference()
	}
	for _, i := range c.images {
		if add(i.repository, i.tag, i.root.Digest) {
			at[i.full] = i.repository + i.reference()
		}
		if short, ok := strings.CutPrefix(i.repository, "library/"); ok && i.registry == "docker.io" {
			add(short, i.tag, i.root.Digest)
		}
	}
	return repos, at
}

// sortedTags returns the tags of a repository after last, at most n of them.
func (r *repository) sortedTags(last string, n int) []string {
	var out []string
	for tag := range r.tags {
		if cmp.Compare(tag, last) > 0 {
			out = append(out, tag)
		}
	}
	slices.Sort(out)
	if len(out) > n {
		out = out[:n]
	}
	return out
}
