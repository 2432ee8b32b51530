package container

import (
	"fmt"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// owns says whether a repository is one of the service's own, or below it. What
// is in there is reached through token names alone.
func (s Settings) owns(registry, repository string) bool {
	own := s.OwnRepositories
	if s.Builds != (Builds{}) {
		own = append([]string{s.Builds.Registry + "/" + s.Builds.Repository}, own...)
	}
	name := strings.ToLower(registry) + "/" + repository + "/"
	for _, o := range own {
		host, path, _ := strings.Cut(o, "/")
		if strings.HasPrefix(name, strings.ToLower(host)+"/"+path+"/") {
			return true
		}
	}
	return false
}

// missing is what we say of an image that does not exist, and of one in our own
// repositories: whether it exists is nobody's business.
func missing(field string, image oci.Reference, cause error) error {
	return fault.Invalid.New(fmt.Sprintf("%s: %s does not exist", field, image), cause)
}
