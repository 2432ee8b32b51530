package caller

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A Keychain finds the login of a caller for a repository
// (gateway/contract/registry.md#credentials). It is safe for concurrent use.
type Keychain struct {
	service map[string]upstream.Login
	// shared reports whether identified callers without a login of their own get the service's.
	shared   bool
	platform platformv1.AccessServiceClient
	builds   BuildRepository
	cache    *memo.Cache[keychainKey, userLogin]
	// changes counts calls of Forget, so that a login that was looked up before is not
	// cached.
	changes *atomic.Int64
}

// A Grant is the permission of one build at the service's own registry: to read its
// repository, to push to it, and to set one tag.
type Grant struct {
	// Repository is the full path, e.g. "builds/0123456789abcdef", or "" for a build that
	// only reads.
	Repository string
	// Tag is the only tag that the build may set.
	Tag string
	// Reads are further repositories that the build may read by digest.
	Reads []string
	// Build is the build ID.
	Build string
	// Until is the time at which the login expires.
	Until time.Time
}

type keychainKey struct {
	caller ID
	// name is "<host>/<repository>", or a host.
	name string
}

// A userLogin is a user's login, or the reason why it is withheld, with its time to live in
// the cache.
type userLogin struct {
	login    upstream.Login
	withheld string
	ttl      time.Duration
}

// keychainTTL is the maximum time for which a user's login is cached.
const keychainTTL = time.Minute

// NewKeychain returns a Keychain with the service's own logins (see ReadAuthFile) and the
// platform that stores the users' logins.
func NewKeychain(service map[string]upstream.Login, platform platformv1.AccessServiceClient) *Keychain {
	return &Keychain{service: service, platform: platform, changes: &atomic.Int64{}, cache: memo.NewCache(memo.Options[keychainKey, userLogin]{
		Most:  10_000,
		AgeOf: func(l userLogin) time.Duration { return l.ttl },
	})}
}

// WithBuildRepository returns a copy of the Keychain with r as the repository of builds. Both
// share their cache.
func (k *Keychain) WithBuildRepository(r BuildRepository) *Keychain {
	c := *k
	c.builds = r
	if (r.Login == upstream.Login{}) && r.Host != "" {
		c.builds.key, c.builds.Login, _ = oci.LongestPrefix(r.String(), k.service)
	}
	return &c
}

// WithSharedLogins returns a copy of the Keychain in which identified callers get the service's
// login where they have none of their own, like anonymous ones. Both share their cache.
func (k *Keychain) WithSharedLogins() *Keychain {
	c := *k
	c.shared = true
	return &c
}

// IsBuildRepository reports whether a repository is the repository of builds or below it.
// Only the service and its builds write there. The host must be spelled as in the setting.
func (k *Keychain) IsBuildRepository(host, repository string) bool {
	return host == k.builds.Host && k.builds.Has(host, repository)
}

// Publish returns text with the public name of the service's registry; see
// BuildRepository.Publish.
func (k *Keychain) Publish(text string) string { return k.builds.Publish(text) }

// BuildAccess returns the access for pushing and serving the caller's builds: in the
// repository of builds the service's login, elsewhere the caller's own login or none, but
// never the service's.
func (k *Keychain) BuildAccess(ctx context.Context, caller ID, host, repository string) (upstream.Access, error) {
	switch {
	case k.IsBuildRepository(host, repository):
		return upstream.Access{Scope: BuildScope, Login: k.builds.Login}, nil
	case caller.IsAnonymous():
		return upstream.Access{}, nil
	}
	return k.ownAccess(ctx, caller, host, repository)
}

// PushLogin returns the login that a build pushes with: that of BuildAccess, or at the
// service's own registry a login for this build only.
func (k *Keychain) PushLogin(ctx context.Context, caller ID, host string, g Grant) (upstream.Login, error) {
	if k.builds.IssueLogin != nil && k.IsBuildRepository(host, g.Repository) {
		return k.builds.IssueLogin(g), nil
	}
	access, err := k.BuildAccess(ctx, caller, host, g.Repository)
	return access.Login, err
}

// PullLogin returns the login with which a build reads images of the repository of builds.
// At the service's own registry it grants access to g.Reads only. It returns the zero value
// if one of g.Reads is elsewhere.
func (k *Keychain) PullLogin(host string, g Grant) upstream.Login {
	for _, repository := range g.Reads {
		if !k.IsBuildRepository(host, repository) {
			return upstream.Login{}
		}
	}
	if k.builds.IssueLogin != nil {
		return k.builds.IssueLogin(g)
	}
	return k.builds.Login
}

// UserLogin returns the caller's own login for a repository. It returns the zero value if the
// caller has none or is anonymous. It never returns the service's login.
func (k *Keychain) UserLogin(ctx context.Context, caller ID, host, repository string) (upstream.Login, error) {
	if caller.IsAnonymous() {
		return upstream.Login{}, nil
	}
	access, err := k.ownAccess(ctx, caller, host, repository)
	return access.Login, err
}

// serviceAccess returns the access with the service's login for a repository, if it has one.
func (k *Keychain) serviceAccess(scope, host, repository string) upstream.Access {
	entry, login, _ := oci.LongestPrefix(host+"/"+repository, k.service)
	if entry == "" || entry == k.builds.key {
		return upstream.Access{Scope: scope}
	}
	return upstream.Access{Scope: scope, Login: login, Service: true}
}

// Access returns the access with which a caller pulls from a repository. An anonymous caller
// gets the service's login, if it has one. An identified caller gets the caller's own login. One who
// has none gets no login, or with WithSharedLogins the service's. For repositories that an access token is not for, its caller gets no login
// (CheckRepository), so that only public images are read there: those that the operator's settings
// and base images refer to. Images in the repository of builds are only readable through token names (see
// BuildAccess). The login that builds are pushed with is not used for other repositories of its
// registry either.
func (k *Keychain) Access(ctx context.Context, caller ID, host, repository string) (upstream.Access, error) {
	if k.builds.Has(host, repository) {
		return upstream.Access{Scope: caller.String()}, nil
	}
	if caller.IsAnonymous() {
		return k.serviceAccess("", host, repository), nil
	}
	access, err := k.ownAccess(ctx, caller, host, repository)
	if err == nil && k.shared && access.Withheld == "" && (access.Login == upstream.Login{}) {
		return k.serviceAccess(access.Scope, host, repository), nil
	}
	return access, err
}

// ownAccess returns the access of an identified caller with the caller's own login, or none.
func (k *Keychain) ownAccess(ctx context.Context, caller ID, host, repository string) (upstream.Access, error) {
	if k.builds.Has(host, repository) {
		return upstream.Access{Scope: caller.String()}, nil
	}
	if !caller.MayName(host, repository) {
		return upstream.Access{Scope: caller.String(), Withheld: "the access token is only for some repositories, and has no logins for others"}, nil
	}
	scope := caller.String()
	caller.Repositories = ""
	key := keychainKey{caller, strings.TrimSuffix(host+"/"+repository, "/")}
	if cached, ok := k.cache.Get(key); ok {
		return upstream.Access{Scope: scope, Login: cached.login, Withheld: cached.withheld}, nil
	}
	before := k.changes.Load()
	resp, err := k.platform.GetCredentials(ctx, &platformv1.GetCredentialsRequest{
		Identity: &platformv1.Identity{Endpoint: caller.Endpoint, UserId: caller.UserID, WorkspaceId: caller.WorkspaceID},
		Registry: key.name,
	})
	if err != nil {
		return upstream.Access{}, fmt.Errorf("getting credentials for %s from the platform: %w", host, err)
	}
	l := upstream.Login{Username: resp.GetCredentials().GetUsername(), Password: resp.GetCredentials().GetPassword()}
	ttl := keychainTTL
	if s := resp.GetMaxAge(); s > 0 {
		ttl = min(ttl, time.Duration(s)*time.Second)
	}
	if k.changes.Load() == before {
		k.cache.Set(key, userLogin{l, resp.GetWithheld(), ttl})
	}
	return upstream.Access{Scope: scope, Login: l, Withheld: resp.GetWithheld()}, nil
}

// ReadAuthFile reads logins from a file in the format of docker's config.json. The keys of
// the result are `host` or `host/path`, with the names of Docker Hub unified. It returns an
// empty map if path is "".
func ReadAuthFile(path string) (map[string]upstream.Login, error) {
	if path == "" {
		return map[string]upstream.Login{}, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading registry credentials: %w", err)
	}
	logins, err := parseAuth(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return logins, nil
}

// LoginFor returns the login with the longest key that is repository or a path above it, or the
// zero value. The keys have the form of those from ReadAuthFile.
func LoginFor(logins map[string]upstream.Login, repository string) upstream.Login {
	for key := repository; ; {
		if l, ok := logins[key]; ok {
			return l
		}
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			return upstream.Login{}
		}
		key = key[:i]
	}
}

func parseAuth(raw []byte) (map[string]upstream.Login, error) {
	var file struct {
		Auths map[string]struct{ Auth, Username, Password string } `json:"auths"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("not in the format of docker's config.json: %w", err)
	}
	logins := make(map[string]upstream.Login, len(file.Auths))
	for key, a := range file.Auths {
		l := upstream.Login{Username: a.Username, Password: a.Password}
		if a.Auth != "" {
			text, err := base64.StdEncoding.DecodeString(a.Auth)
			user, pass, ok := strings.Cut(string(text), ":")
			if err != nil || !ok {
				return nil, fmt.Errorf("auths[%q].auth is not base64 of user:password", key)
			}
			l = upstream.Login{Username: user, Password: pass}
		}
		if l.Username == "" {
			return nil, fmt.Errorf("auths[%q] has no auth; credential helpers are not supported", key)
		}
		logins[oci.LoginKey(key)] = l
	}
	return logins, nil
}
