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

	"github.com/maypok86/otter/v2"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Keychain finds the login for a caller and a repository
// (gateway/contract/registry.md#credentials). Safe for concurrent use.
type Keychain struct {
	service  map[string]upstream.Login
	platform platformv1.PlatformServiceClient
	own      Own
	known    *otter.Cache[keychainKey, known]
	// changes counts what Forget was told, so that no answer from before is kept.
	changes *atomic.Int64
}

// Own is where the service keeps what it builds. The zero value is nowhere.
type Own struct {
	// Host and Repository are the registry and the path; everything below it
	// belongs to it.
	Host, Repository string
	// Login is the service's own for it; the zero value is the one that
	// ReadAuthFile has for it.
	Login upstream.Login
	// Grant makes the login of one build, which is good for what that build pushes
	// and for nothing else; nil where builds push with Login.
	Grant func(Grant) upstream.Login

	// key is the entry that Login is from; "" for none. Builds are pushed with it, so
	// it reads nothing on anybody's behalf.
	key string
}

// Grant is what one build may do at the service's own image store: read its
// repository, add to it, and give one tag to what it has made.
type Grant struct {
	// Repository is the whole path, e.g. "builds/0123456789abcdef"; "" for a build that
	// only reads there.
	Repository string
	// Tag is the one that the build sets.
	Tag string
	// Reads are other repositories that it reads by digest; nil for none.
	Reads []string
	// Build is the build's id.
	Build string
	// Until is when the login ends.
	Until time.Time
}

// Has says whether a repository is the own one, or below it, however its host is
// spelled.
func (o Own) Has(host, repository string) bool {
	return o.HasHost(host) && (repository == o.Repository || strings.HasPrefix(repository, o.Repository+"/"))
}

// HasHost says whether a host is the own repository's, however it is spelled.
func (o Own) HasHost(host string) bool { return o.Host != "" && oci.SameHost(host, o.Host) }

// String is "<host>/<repository>"; "" for nowhere.
func (o Own) String() string {
	if o.Host == "" {
		return ""
	}
	return o.Host + "/" + o.Repository
}

type keychainKey struct {
	caller ID
	// name is "<host>/<repository>", or a host alone.
	name string
}

// known is a user's login, or why there is none, and for how long it holds.
type known struct {
	login    upstream.Login
	withheld string
	ttl      time.Duration
}

// keychainTTL is how long a user's login is remembered at most, in memory only.
const keychainTTL = time.Minute

// NewKeychain takes the service's own logins (see ReadAuthFile), and the platform
// that knows the users'.
func NewKeychain(service map[string]upstream.Login, platform platformv1.PlatformServiceClient) *Keychain {
	return &Keychain{service: service, platform: platform, changes: &atomic.Int64{}, known: otter.Must(&otter.Options[keychainKey, known]{
		MaximumSize:      10_000,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[keychainKey, known]) time.Duration { return e.Value.ttl }),
	})}
}

// WithOwn returns a keychain that also knows the service's own repository. What
// is remembered is shared.
func (k *Keychain) WithOwn(o Own) *Keychain {
	c := *k
	c.own = o
	if (o.Login == upstream.Login{}) && o.Host != "" {
		c.own.key, c.own.Login, _ = oci.LongestPrefix(o.String(), k.service)
	}
	return &c
}

// Owns says whether the service's own login is for a repository: only the service
// itself, and builds of its own, write there. The host is spelled as the setting
// has it.
func (k *Keychain) Owns(host, repository string) bool {
	return host == k.own.Host && k.own.Has(host, repository)
}

// Target returns how caller's builds are pushed and served: in the service's own
// repository with the service's login, anywhere else with the caller's own or
// none, never the service's.
func (k *Keychain) Target(ctx context.Context, caller ID, host, repository string) (upstream.Access, error) {
	switch {
	case k.Owns(host, repository):
		return upstream.Access{Scope: "own", Login: k.own.Login}, nil
	case caller.IsAnonymous():
		return upstream.Access{}, nil
	}
	return k.Access(ctx, caller, host, repository)
}

// Push returns the login that a build pushes with: as Target has it, but in the
// service's own image store one that is good for this build alone.
func (k *Keychain) Push(ctx context.Context, caller ID, host string, g Grant) (upstream.Login, error) {
	if k.own.Grant != nil && k.Owns(host, g.Repository) {
		return k.own.Grant(g), nil
	}
	access, err := k.Target(ctx, caller, host, g.Repository)
	return access.Login, err
}

// Given returns the login that a build reads one of the service's own images with. In
// its own image store it is good for g.Reads alone.
func (k *Keychain) Given(host string, g Grant) upstream.Login {
	for _, repository := range g.Reads {
		if !k.Owns(host, repository) {
			return upstream.Login{}
		}
	}
	if k.own.Grant != nil {
		return k.own.Grant(g)
	}
	return k.own.Login
}

// Own returns the login that caller has themselves for a repository; the zero value
// for none, and for whoever is anonymous. It is never the service's.
func (k *Keychain) Own(ctx context.Context, caller ID, host, repository string) (upstream.Login, error) {
	if caller.IsAnonymous() {
		return upstream.Login{}, nil
	}
	access, err := k.Access(ctx, caller, host, repository)
	return access.Login, err
}

// Access returns how caller pulls from a repository: an anonymous caller with
// the service's login for it, where there is one; an identified caller with
// their own or none, never the service's. What the service built is read through
// token names alone (see Target), and the login that builds are pushed with reads
// nothing else at its registry.
func (k *Keychain) Access(ctx context.Context, caller ID, host, repository string) (upstream.Access, error) {
	if k.own.Has(host, repository) {
		return upstream.Access{Scope: caller.String()}, nil
	}
	if caller.IsAnonymous() {
		entry, login, _ := oci.LongestPrefix(host+"/"+repository, k.service)
		if entry != "" && entry == k.own.key {
			return upstream.Access{}, nil
		}
		return upstream.Access{Login: login}, nil
	}
	key := keychainKey{caller, strings.TrimSuffix(host+"/"+repository, "/")}
	if of, ok := k.known.GetIfPresent(key); ok {
		return upstream.Access{Scope: caller.String(), Login: of.login, Withheld: of.withheld}, nil
	}
	before := k.changes.Load()
	resp, err := k.platform.GetCredentials(ctx, &platformv1.GetCredentialsRequest{
		Identity: &platformv1.Identity{Endpoint: caller.Endpoint, UserId: caller.UserID, WorkspaceId: caller.WorkspaceID},
		Registry: key.name,
	})
	if err != nil {
		return upstream.Access{}, fmt.Errorf("asking the platform for credentials at %s: %w", host, err)
	}
	l := upstream.Login{Username: resp.GetCredentials().GetUsername(), Password: resp.GetCredentials().GetPassword()}
	ttl := keychainTTL
	if s := resp.GetMaxAge(); s > 0 {
		ttl = min(ttl, time.Duration(s)*time.Second)
	}
	if k.changes.Load() == before {
		k.known.Set(key, known{l, resp.GetWithheld(), ttl})
	}
	return upstream.Access{Scope: caller.String(), Login: l, Withheld: resp.GetWithheld()}, nil
}

// ReadAuthFile reads logins in the format of docker's config.json; keys are
// `host` or `host/path`, Docker Hub under any of its names. An empty path is no
// logins.
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
