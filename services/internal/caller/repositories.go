package caller

import (
	"strings"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// Restriction identifies the repositories of the caller's access token, as 16 hex digits; "" if
// the token is for all repositories. Requests and builds are stored with it.
func (c ID) Restriction() string {
	if c.Repositories == "" {
		return ""
	}
	return digest.FromString(c.Repositories).Encoded()[:16]
}

// MayName reports whether the caller's access token may be used for a repository.
func (c ID) MayName(host, repository string) bool {
	if c.Repositories == "" {
		return true
	}
	for p := range strings.FieldsSeq(c.Repositories) {
		if oci.RepositoryPattern(p).Matches(host, repository) {
			return true
		}
	}
	return false
}

// CheckRepository returns fault.Denied with the code fault.TokenScope if a request, in a field,
// names a repository that the caller's access token is not for
// (gateway/contract/platform.md#repositories). Services call it with each repository that a request
// names, and CheckPlan with each issued name.
func (c ID) CheckRepository(field, host, repository string) error {
	if c.MayName(host, repository) {
		return nil
	}
	return fault.Denied.Newf("%s: the access token is not for %s/%s, only for %s; use another token",
		field, host, repository, strings.ReplaceAll(c.Repositories, " ", ", ")).WithCode(fault.TokenScope)
}

// CheckPlan is CheckRepository for the images that an issued name represents: its source, and
// those whose layers it includes. Results of builds in the service's own repository are allowed.
func (k *Keychain) CheckPlan(who ID, field string, plan *containerv1.Plan) error {
	images := []interface {
		GetRegistry() string
		GetRepository() string
	}{plan.GetSource()}
	for _, l := range plan.GetConfig().GetLayers() {
		if from := l.GetIncludedFrom(); from != nil {
			images = append(images, from)
		}
	}
	for _, image := range images {
		if k.IsBuildRepository(image.GetRegistry(), image.GetRepository()) {
			continue
		}
		if err := who.CheckRepository(field, image.GetRegistry(), image.GetRepository()); err != nil {
			return err
		}
	}
	return nil
}
