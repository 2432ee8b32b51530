package caller

import (
	"strings"

	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// BuildScope is the scope of the access to the repository of builds.
const BuildScope = "own"

// A BuildRepository is the repository where the service stores the images that it builds. The
// zero value means no repository.
type BuildRepository struct {
	// Host and Repository are the registry and the path. Repositories below the path belong
	// to it as well.
	Host, Repository string
	// Public is the host by which clients know the registry if Host is an internal address.
	// If "", Host is public.
	Public string
	// Login is the service's login for it. If zero, it is taken from the file that
	// ReadAuthFile reads.
	Login upstream.Login
	// IssueLogin returns a login for one build, with only the permissions in the Grant. If
	// nil, builds push with Login.
	IssueLogin func(Grant) upstream.Login

	// key is the entry that Login was taken from, or "". Builds are pushed with it, so that
	// it must not be used to read for callers.
	key string
}

// Has reports whether a repository is this one or below it. All spellings of the host are
// accepted.
func (r BuildRepository) Has(host, repository string) bool {
	below, ok := strings.CutPrefix(repository, r.Repository)
	return ok && (below == "" || below[0] == '/') && r.HasHost(host) // the host last, which takes longer
}

// HasHost reports whether a host is the registry's. All spellings are accepted.
func (r BuildRepository) HasHost(host string) bool { return r.Host != "" && oci.SameHost(host, r.Host) }

// String returns "<host>/<repository>", or "" for the zero value.
func (r BuildRepository) String() string {
	if r.Host == "" {
		return ""
	}
	return r.Host + "/" + r.Repository
}

// Publish returns text with the internal host replaced by the public one. It is applied to
// responses, logs and messages for users.
func (r BuildRepository) Publish(text string) string {
	if r.Public == "" {
		return text
	}
	return strings.ReplaceAll(text, r.Host, r.Public)
}
