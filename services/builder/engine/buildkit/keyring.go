package buildkit

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/moby/buildkit/session/auth"
	"golang.org/x/crypto/nacl/sign"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// keyring answers the daemon's requests for logins, through the build's own session.
//
// The daemon requests them in two ways. For registries with tokens (Docker Hub, quay.io,
// ghcr.io, …) it learns that this session fetches them (GetTokenAuthority), and never sees
// a password: FetchToken names repositories, and the returned token is limited to the
// build's own. For registries that require a password with each request, Credentials only
// names the host, and the daemon uses the returned password for all requests: the push, the
// cache, and the allowed sources (see sources), which may have different logins. So
// Credentials returns the first of these logins only, and a cache whose login differs from
// the push's is excluded from the build (see addCache).
type keyring struct {
	auth.UnimplementedAuthServer
	logins     *jobs.Logins
	registries remote.Registries
	target     upstream.Repository
	cache      upstream.Repository // zero for none
	sources    *sources
	// public and private are the keys by which the daemon recognises this session.
	public  *[32]byte
	private *[64]byte
}

func newKeyring(job jobs.Job, l *jobs.Logins, r remote.Registries, s *sources) (*keyring, error) {
	public, private, err := sign.GenerateKey(rand.Reader)
	return &keyring{
		logins: l, registries: r, target: job.Repository(), cache: job.CacheRepository(), sources: s, public: public, private: private,
	}, err
}

// Register registers the service on the session.
func (k *keyring) Register(server *grpc.Server) { auth.RegisterAuthServer(server, k) }

// GetTokenAuthority states that this session fetches tokens itself.
func (k *keyring) GetTokenAuthority(context.Context, *auth.GetTokenAuthorityRequest) (*auth.GetTokenAuthorityResponse, error) {
	if k.registries == nil {
		return nil, status.Error(codes.Unimplemented, "this worker fetches no tokens")
	}
	return &auth.GetTokenAuthorityResponse{PublicKey: k.public[:]}, nil
}

// VerifyTokenAuthority proves that this is the session of a key. Each session has its own
// key, so that tokens of one build are never used for another.
func (k *keyring) VerifyTokenAuthority(_ context.Context, req *auth.VerifyTokenAuthorityRequest) (*auth.VerifyTokenAuthorityResponse, error) {
	return &auth.VerifyTokenAuthorityResponse{Signed: sign.Sign(nil, req.GetPayload(), k.private)}, nil
}

// FetchToken fetches a token for those of the requested repositories that are the build's
// own, or an anonymous token if none of them are.
func (k *keyring) FetchToken(ctx context.Context, req *auth.FetchTokenRequest) (*auth.FetchTokenResponse, error) {
	if k.registries == nil {
		return nil, status.Error(codes.Unimplemented, "this worker fetches no tokens")
	}
	ask := upstream.TokenRequest{Host: oci.CanonicalHost(req.GetHost()), Realm: req.GetRealm(), Service: req.GetService()}
	var err error
	if ask.Login, ask.Scopes, err = k.rights(ctx, ask.Host, req.GetScopes()); err != nil {
		return nil, err
	}
	now := time.Now()
	token, expires, err := k.registries.Token(ctx, ask)
	if err != nil {
		return nil, err
	}
	return &auth.FetchTokenResponse{Token: token, ExpiresIn: max(1, int64(expires.Sub(now)/time.Second)), IssuedAt: now.Unix()}, nil
}

// rights chooses one login and the scopes that it may be used for: the login of a pushed
// repository, or else the first login that a source is read with. Without a login it keeps
// all scopes, since anonymous access is open to any client.
func (k *keyring) rights(ctx context.Context, host string, scopes []string) (login upstream.Login, kept []string, err error) {
	var own []right
	for _, scope := range scopes {
		r, err := k.right(ctx, host, scope)
		if err != nil {
			return login, nil, err
		}
		own = append(own, r)
	}
	pushes := slices.IndexFunc(own, func(r right) bool { return r.own && r.push })
	if pushes >= 0 {
		login = own[pushes].login
	} else if i := slices.IndexFunc(own, func(r right) bool { return r.own && r.login != (upstream.Login{}) }); i >= 0 {
		login = own[i].login
	}
	if login == (upstream.Login{}) {
		return login, scopes, nil
	}
	for i, r := range own {
		// A repository that is read anonymously may also be read with a login; one that is
		// pushed to may not be used with another login.
		if r.own && (r.login == login || pushes < 0 && r.login == (upstream.Login{})) {
			kept = append(kept, scopes[i])
		}
	}
	return login, kept, nil
}

// right is a build's access to one repository.
type right struct {
	own, push bool
	login     upstream.Login
}

// right looks up a scope, for example "repository:team/app:pull,push".
func (k *keyring) right(ctx context.Context, host, scope string) (right, error) {
	name, ok := strings.CutPrefix(scope, "repository:")
	i := strings.LastIndexByte(name, ':')
	if !ok || i < 0 {
		return right{}, nil
	}
	repo, push := upstream.Repository{Host: host, Name: name[:i]}, name[i+1:] != "pull"
	if login, ok := k.sources.of(repo); ok && !push {
		return right{own: true, login: login}, nil
	}
	var err error
	r := right{push: push}
	switch repo {
	case k.target:
		r.own = true
		r.login, err = k.logins.Push(ctx, repo)
	case k.cache:
		r.own = true
		r.login, err = k.logins.Cache(ctx, repo)
	}
	return r, err
}

// Credentials returns the login for a registry that requires one with each request, or an
// empty one.
func (k *keyring) Credentials(ctx context.Context, req *auth.CredentialsRequest) (*auth.CredentialsResponse, error) {
	var login upstream.Login
	var err error
	switch host := oci.CanonicalHost(req.GetHost()); host {
	case k.target.Host:
		login, err = k.logins.Push(ctx, k.target)
	case k.cache.Host:
		login, err = k.logins.Cache(ctx, k.cache)
	default:
		login = k.sources.at(host)
	}
	if err != nil {
		return nil, err
	}
	return &auth.CredentialsResponse{Username: login.Username, Secret: login.Password}, nil
}
