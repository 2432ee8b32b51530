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

// keyring answers the daemon's questions for logins, over the build's own session.
//
// The daemon asks in two ways. Where a registry wants tokens (Docker Hub, quay.io,
// ghcr.io, …) it is told that this session fetches them (GetTokenAuthority), and
// never sees a password: FetchToken names repositories, and the token that it gets
// is good for those alone that are the build's own. Where a registry wants a
// password with each request, Credentials names the host alone, and the daemon uses
// what it gets for all it does there. That is the push, the cache and the sources
// that were allowed (see sources), each by its own right; so a password is answered
// for the first of these alone, and a cache whose login is another than the push's
// is left out of the build (see addCache).
type keyring struct {
	auth.UnimplementedAuthServer
	logins     *jobs.Logins
	registries remote.Registries
	target     upstream.Repository
	cache      upstream.Repository // zero for none
	sources    *sources
	// public and private are the keys by which the daemon knows this session again.
	public  *[32]byte
	private *[64]byte
}

func newKeyring(job jobs.Job, l *jobs.Logins, r remote.Registries, s *sources) (*keyring, error) {
	public, private, err := sign.GenerateKey(rand.Reader)
	return &keyring{
		logins: l, registries: r, target: job.Repository(), cache: job.CacheRepository(), sources: s, public: public, private: private,
	}, err
}

// Register offers it on the session.
func (k *keyring) Register(server *grpc.Server) { auth.RegisterAuthServer(server, k) }

// GetTokenAuthority says that this session fetches tokens itself.
func (k *keyring) GetTokenAuthority(context.Context, *auth.GetTokenAuthorityRequest) (*auth.GetTokenAuthorityResponse, error) {
	if k.registries == nil {
		return nil, status.Error(codes.Unimplemented, "this worker fetches no tokens")
	}
	return &auth.GetTokenAuthorityResponse{PublicKey: k.public[:]}, nil
}

// VerifyTokenAuthority proves that this is the session that gave a key. No other
// has it: what one build was given is never another's.
func (k *keyring) VerifyTokenAuthority(_ context.Context, req *auth.VerifyTokenAuthorityRequest) (*auth.VerifyTokenAuthorityResponse, error) {
	return &auth.VerifyTokenAuthorityResponse{Signed: sign.Sign(nil, req.GetPayload(), k.private)}, nil
}

// FetchToken fetches a token for those repositories among the scopes that are the
// build's own; without any, the token that everybody gets.
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

// rights chooses one login, and the scopes that it may be used for: where something
// is pushed, the login of that; else the first that a source is read with. Without a
// login all scopes stay, since everybody may ask.
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
		// What is read without a login may be read with one; what is pushed may not.
		if r.own && (r.login == login || pushes < 0 && r.login == (upstream.Login{})) {
			kept = append(kept, scopes[i])
		}
	}
	return login, kept, nil
}

// right is what a build may do in one repository.
type right struct {
	own, push bool
	login     upstream.Login
}

// right looks up a scope, e.g. "repository:team/app:pull,push".
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

// Credentials returns the login for a registry that wants one with each request; an
// empty one where the build has none.
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
