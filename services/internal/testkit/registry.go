package testkit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"
)

// Auth is the authentication that a Registry requires.
type Auth int

// The kinds of authentication.
const (
	Open   Auth = iota
	Basic       // HTTP basic authentication
	Bearer      // a token from a token service
)

// User and Password are the login of registries that require one.
const (
	User     = "ada"
	Password = "correct horse"
)

// A Registry is a real registry on loopback, in memory.
type Registry struct {
	// Host is its host:port.
	Host string
	auth Auth

	mu        sync.Mutex
	intercept func(http.ResponseWriter, *http.Request) bool
	requests  []string
	tokens    atomic.Int64
	handler   http.Handler
	server    *httptest.Server
}

// NewRegistry starts a registry that ends with the test.
func NewRegistry(t testing.TB, auth Auth) *Registry {
	t.Helper()
	r := &Registry{auth: auth}
	r.Empty(t)
	r.server = httptest.NewServer(r)
	r.Host = strings.TrimPrefix(r.server.URL, "http://")
	t.Cleanup(r.Stop)
	return r
}

// Stop stops the registry for good. Connections to it are refused from then on.
func (r *Registry) Stop() {
	r.server.CloseClientConnections()
	r.server.Close()
}

// Empty removes everything from the registry, like the loss of its disk.
func (r *Registry) Empty(t testing.TB) {
	t.Helper()
	deletes := true
	store := olareg.New(config.Config{Storage: config.ConfigStorage{StoreType: config.StoreMem}, API: config.ConfigAPI{DeleteEnabled: &deletes, Blob: config.ConfigAPIBlob{DeleteEnabled: &deletes}}})
	t.Cleanup(func() { _ = store.Close() })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handler = store
}

// Intercept lets f handle requests. f returns false for requests that the registry must handle.
// nil removes the handler.
func (r *Registry) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = f
}

// Requests lists the requests since the last call as "METHOD path", without token requests.
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.requests
	r.requests = nil
	return out
}

// Tokens returns the number of issued bearer tokens.
func (r *Registry) Tokens() int { return int(r.tokens.Load()) }

// ServeHTTP implements the distribution API and /token.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/token" {
		r.token(w, req)
		return
	}
	r.mu.Lock()
	r.requests = append(r.requests, req.Method+" "+req.URL.Path)
	intercept, handler := r.intercept, r.handler
	r.mu.Unlock()
	if !r.authorized(req) {
		r.challenge(w, req)
		return
	}
	if intercept != nil && intercept(w, req) {
		return
	}
	handler.ServeHTTP(w, req)
}

func (r *Registry) authorized(req *http.Request) bool {
	switch r.auth {
	case Basic:
		user, pass, _ := req.BasicAuth()
		return user == User && pass == Password
	case Bearer:
		return strings.HasPrefix(req.Header.Get("Authorization"), "Bearer good-for:"+repositoryOf(req.URL.Path))
	}
	return true
}

func repositoryOf(path string) string {
	path = strings.TrimPrefix(path, "/v2/")
	for _, kind := range []string{"/manifests/", "/blobs/", "/tags/", "/referrers/"} {
		if i := strings.LastIndex(path, kind); i >= 0 {
			return path[:i]
		}
	}
	return path
}

func (r *Registry) challenge(w http.ResponseWriter, req *http.Request) {
	switch r.auth {
	case Basic:
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	case Bearer:
		scope := ""
		if repo := repositoryOf(req.URL.Path); repo != "" {
			scope = fmt.Sprintf(`,scope="repository:%s:pull,push"`, repo)
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test"%s`, r.Host, scope))
	}
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED"}]}`))
}

// token issues a token for one repository to clients with the login.
func (r *Registry) token(w http.ResponseWriter, req *http.Request) {
	user, pass, _ := req.BasicAuth()
	if user != User || pass != Password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.tokens.Add(1)
	parts := strings.Split(req.URL.Query().Get("scope"), ":")
	repo := ""
	if len(parts) == 3 {
		repo = parts[1]
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": "good-for:" + repo, "expires_in": 300})
}

// login returns the login of the test itself.
func (r *Registry) login() remote.Option {
	if r.auth == Open {
		return remote.WithAuth(authn.Anonymous)
	}
	return remote.WithAuth(&authn.Basic{Username: User, Password: Password})
}

// Push pushes an image or index to host/ref and returns its full name.
func (r *Registry) Push(t testing.TB, ref string, what any) string {
	t.Helper()
	full := r.Host + "/" + ref
	tag, err := name.ParseReference(full, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	switch what := what.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, what, r.login())
	case v1.Image:
		err = remote.Write(tag, what, r.login())
	default:
		t.Fatalf("cannot push a %T", what)
	}
	if err != nil {
		t.Fatalf("pushing %s: %v", full, err)
	}
	return full
}
