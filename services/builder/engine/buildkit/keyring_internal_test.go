package buildkit

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/session/auth"
	"github.com/opencontainers/go-digest"
	"golang.org/x/crypto/nacl/sign"
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// rightsService is a build service with logins by "<purpose> <host>/<repository>".
type rightsService struct {
	buildv1.WorkServiceClient
	logins map[string]string
}

func (r rightsService) GetBuildCredentials(_ context.Context, req *buildv1.GetBuildCredentialsRequest, _ ...grpc.CallOption) (*buildv1.GetBuildCredentialsResponse, error) {
	purpose := map[buildv1.LoginPurpose]string{
		buildv1.LoginPurpose_LOGIN_PURPOSE_READ: "read", buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH: "push", buildv1.LoginPurpose_LOGIN_PURPOSE_CACHE: "cache",
	}[req.GetPurpose()]
	user := r.logins[purpose+" "+req.GetRegistry()+"/"+req.GetRepository()]
	return &buildv1.GetBuildCredentialsResponse{Username: user, Password: user}, nil
}

// tokens is a set of registries whose repositories are public except prod/secret. It
// records the requested tokens.
type tokens struct {
	remote.Registries
	asked upstream.TokenRequest
}

func (r *tokens) Resolve(_ context.Context, repo upstream.Repository, _ string, a upstream.Access) (digest.Digest, error) {
	if repo.Name == "prod/secret" && a.Login == (upstream.Login{}) {
		return "", fault.Denied.Newf("it is private")
	}
	return digest.FromString("x"), nil
}

func (r *tokens) Token(_ context.Context, ask upstream.TokenRequest) (string, time.Time, error) {
	r.asked = ask
	return "token", time.Now().Add(time.Minute), nil
}

// newRights returns the session of a build that pushes to hub.test/team/app, caches layers
// in hub.test/team/cache, and has requested images.
func newRights(t *testing.T, known map[string]string, images ...string) (*keyring, *tokens) {
	t.Helper()
	job := jobs.Job{
		ID: "a_1", Delivery: 1, Forbidden: []string{"own.test:5000/builds"},
		Target: &buildv1.Target{Registry: "hub.test", Repository: "team/app", Tag: "1", CacheRepository: "hub.test/team/cache"},
	}
	l, r := jobs.NewLogins(rightsService{logins: known}, ""), &tokens{}
	from := newSources(r, l, job)
	for _, image := range images {
		from.refusal(t.Context(), "docker-image://"+image)
	}
	keys, err := newKeyring(job, l, r, from)
	if err != nil {
		t.Fatal(err)
	}
	return keys, r
}

// TestTokensAreForOwnRepositories requests tokens for more than the build's own
// repositories.
func TestTokensAreForOwnRepositories(t *testing.T) {
	t.Parallel()
	service := map[string]string{"push hub.test/team/app": "service"}
	for _, tc := range []struct {
		name   string
		logins map[string]string
		images []string
		scopes []string
		login  string
		want   []string
	}{
		{"a push", service, nil, []string{"repository:team/app:pull,push"}, "service", []string{"repository:team/app:pull,push"}},
		{"a push and a secret", service, nil,
			[]string{"repository:prod/secret:pull", "repository:team/app:pull,push"}, "service", []string{"repository:team/app:pull,push"}},
		{"only a secret: anonymous", service, nil, []string{"repository:prod/secret:pull"}, "", []string{"repository:prod/secret:pull"}},
		{"a secret that was refused", service, []string{"hub.test/prod/secret:1"}, []string{"repository:prod/secret:pull"}, "", []string{"repository:prod/secret:pull"}},
		{"pushing elsewhere", service, nil, []string{"repository:prod/app:pull,push"}, "", []string{"repository:prod/app:pull,push"}},
		{"pushing to a source", map[string]string{"read hub.test/base/a": "ada"}, []string{"hub.test/base/a:1"},
			[]string{"repository:base/a:pull,push"}, "", []string{"repository:base/a:pull,push"}},
		{"deleting what it pushed is a push", service, nil, []string{"repository:team/app:delete"}, "service", []string{"repository:team/app:delete"}},
		{"a cache has its own login", map[string]string{"push hub.test/team/app": "service", "cache hub.test/team/cache": "ada"}, nil,
			[]string{"repository:team/cache:pull,push"}, "ada", []string{"repository:team/cache:pull,push"}},
		{"and not the push's", service, nil, []string{"repository:team/cache:pull,push"}, "", []string{"repository:team/cache:pull,push"}},
		{"the same path at another registry", service, nil, []string{"other.test repository:team/app:pull,push"}, "", []string{"other.test repository:team/app:pull,push"}},
		{"a source, with its owner's login", map[string]string{"read hub.test/base/a": "ada"}, []string{"hub.test/base/a:1", "hub.test/base/b:1"},
			[]string{"repository:base/a:pull", "repository:base/b:pull", "repository:prod/secret:pull"}, "ada", []string{"repository:base/a:pull", "repository:base/b:pull"}},
		{"a mount from a source that has another login", map[string]string{"read hub.test/base/a": "ada", "push hub.test/team/app": "service"}, []string{"hub.test/base/a:1"},
			[]string{"repository:base/a:pull", "repository:team/app:pull,push"}, "service", []string{"repository:team/app:pull,push"}},
		{"a push without a login does not use a source's", map[string]string{"read hub.test/base/a": "service"}, []string{"hub.test/base/a:1"},
			[]string{"repository:base/a:pull", "repository:team/app:pull,push"}, "", []string{"repository:base/a:pull", "repository:team/app:pull,push"}},
		{"the list of repositories", service, nil, []string{"registry:catalog:*", "repository:team/app:pull"}, "service", []string{"repository:team/app:pull"}},
		{"nonsense", service, nil, []string{"repository:", "repository:team/app", ":", ""}, "", []string{"repository:", "repository:team/app", ":", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			keys, r := newRights(t, tc.logins, tc.images...)
			if _, err := keys.FetchToken(t.Context(), &auth.FetchTokenRequest{Host: "hub.test", Realm: "https://t", Scopes: tc.scopes}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, r.asked.Scopes); diff != "" || r.asked.Login.Username != tc.login || r.asked.Host != "hub.test" {
				t.Errorf("asked with the login %q for (-want +got):\n%s", r.asked.Login.Username, diff)
			}
		})
	}
}

// TestPasswordsAreForOneHost checks registries that require a password with each request.
func TestPasswordsAreForOneHost(t *testing.T) {
	t.Parallel()
	keys, _ := newRights(t, map[string]string{
		"push hub.test/team/app": "service", "read base.test/a": "ada", "read hub.test/prod/secret": "x", "read registry-1.docker.io/a/b": "wrong", "read docker.io/a/b": "ada",
	}, "base.test/a:1", "base.test/b:1", "own.test:5000/builds/a:1", "OWN.test.:5000/builds/a:1", "docker.io/a/b:1")
	for host, want := range map[string]string{
		"hub.test": "service", "base.test": "ada", "registry-1.docker.io": "ada", "HUB.test": "", "hub.test:443": "", "hub.test.": "", "own.test:5000": "", "else.test": "",
	} {
		got, err := keys.Credentials(t.Context(), &auth.CredentialsRequest{Host: host})
		if err != nil || got.GetUsername() != want {
			t.Errorf("%s: %q, %v; want %q", host, got.GetUsername(), err, want)
		}
	}
}

// TestCacheWithAnotherLogin checks that a cache is excluded if the daemon could mistake its
// login.
func TestCacheWithAnotherLogin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, cache string
		logins      map[string]string
		want        bool
	}{
		{"the service's and a user's login", "hub.test/team/cache", map[string]string{"push hub.test/team/app": "service", "cache hub.test/team/cache": "ada"}, false},
		{"the service's login and none", "hub.test/team/cache", map[string]string{"push hub.test/team/app": "service"}, false},
		{"the service's login and none, another spelling", "HUB.test:443/team/cache", map[string]string{"push hub.test/team/app": "service"}, false},
		{"a user's login for both", "hub.test/team/cache", map[string]string{"push hub.test/team/app": "ada", "cache hub.test/team/cache": "ada"}, true},
		{"another registry", "cache.test/a", map[string]string{"push hub.test/team/app": "service"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			job := jobs.Job{Recipe: &buildv1.Recipe{}, Target: &buildv1.Target{Registry: "hub.test", Repository: "team/app", CacheRepository: tc.cache}}
			l := jobs.NewLogins(rightsService{logins: tc.logins}, "")
			keys, err := newKeyring(job, l, nil, newSources(nil, l, job))
			if err != nil {
				t.Fatal(err)
			}
			out, opt := &lines{}, client.SolveOpt{}
			if err := keys.addCache(t.Context(), &opt, map[string]content.Store{}, job, t.TempDir(), out); err != nil || (len(opt.CacheExports) == 1) != tc.want || (len(out.got) == 0) != tc.want {
				t.Errorf("%v, %d lines, %v", opt.CacheExports, len(out.got), err)
			}
		})
	}
}

// TestSourcesInEverySpelling requests the service's own images under different
// spellings.
func TestSourcesInEverySpelling(t *testing.T) {
	t.Parallel()
	r := &tokens{}
	l := jobs.NewLogins(rightsService{}, "")
	s := newSources(r, l, jobs.Job{Forbidden: []string{"127.0.0.1:5000/builds", "docker.io/us/builds"}})
	for _, image := range []string{
		"127.0.0.1:5000/builds:a", "127.0.0.1:5000/builds/x:a", "localhost:5000/builds:a", "LOCALHOST:5000/builds:a", "[::1]:5000/builds:a",
		"127.0.0.2:5000/builds:a", "0.0.0.0:5000/builds:a", "us/builds:a", "index.docker.io/us/builds:a", "registry-1.docker.io/us/builds:a", "docker.io:443/us/builds/x:a",
	} {
		if s.refusal(t.Context(), "docker-image://"+image) == "" {
			t.Errorf("%s may be read", image)
		}
	}
	if why := s.refusal(t.Context(), "docker-image://127.0.0.1:5000/buildsx:a"); why != "" {
		t.Errorf("another repository may not be read: %s", why)
	}
}

// TestSessionsAreNotMistaken checks that only its own session proves a key.
func TestSessionsAreNotMistaken(t *testing.T) {
	t.Parallel()
	a, _ := newRights(t, nil)
	b, _ := newRights(t, nil)
	key, err := a.GetTokenAuthority(t.Context(), &auth.GetTokenAuthorityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		keys *keyring
		want bool
	}{{a, true}, {b, false}} {
		proof, err := tc.keys.VerifyTokenAuthority(t.Context(), &auth.VerifyTokenAuthorityRequest{Payload: []byte("payload")})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := sign.Open(nil, proof.GetSigned(), (*[32]byte)(key.GetPublicKey())); ok != tc.want {
			t.Errorf("proved: %t", ok)
		}
	}
}
