package upstream_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// authorizations records the Authorization header of every request.
type authorizations struct {
	mu   sync.Mutex
	list []string
}

func (a *authorizations) note(r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
}

func (a *authorizations) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.list, "\n")
}

func TestTokensAreKeptPerIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Bearer)
	w.Push(t, "team/other:1", testkit.Image(t, "arm64", true))
	before := w.Tokens()
	other := upstream.Repository{Host: w.Host, Name: "team/other"}
	bob := upstream.Access{Scope: "bob", Login: ada.Login}
	for _, tc := range []struct {
		name   string
		repo   upstream.Repository
		access upstream.Access
		tokens int // issued so far
		want   error
	}{
		{"first", w.repo, ada, 1, nil},
		{"again", w.repo, ada, 1, nil},
		{"an anonymous caller does not use it", w.repo, anonymous, 1, fault.Unauthenticated},
		{"another caller with the same login", w.repo, bob, 2, nil},
		{"another repository", other, ada, 3, nil},
		{"the first repository still", w.repo, ada, 3, nil},
	} {
		if _, err := w.client.Manifest(t.Context(), tc.repo, "1", tc.access); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
		if got := w.Tokens() - before; got != tc.tokens {
			t.Errorf("%s: %d tokens were issued, want %d", tc.name, got, tc.tokens)
		}
	}
}

func TestStoredLoginIsSentImmediately(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Basic)
	for _, want := range []int{2, 1} {
		w.Requests()
		if _, err := w.client.Manifest(t.Context(), w.repo, "1", ada); err != nil {
			t.Fatal(err)
		}
		if got := w.Requests(); len(got) != want {
			t.Errorf("asked %v, want %d requests", got, want)
		}
	}
}

// tokenRegistry requires the newest token of its own token service. life is the expires_in
// of tokens.
func tokenRegistry(life string, given *[]string, seen *authorizations) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.note(r)
		if r.URL.Path == "/token" {
			*given = append(*given, fmt.Sprintf("t%d", len(*given)+1))
			_, _ = fmt.Fprintf(w, `{"token":%q,"expires_in":%s}`, (*given)[len(*given)-1], life)
			return
		}
		if n := len(*given); n == 0 || r.Header.Get("Authorization") != "Bearer "+(*given)[n-1] {
			w.Header().Add("WWW-Authenticate", `Negotiate`)
			w.Header().Add("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token?account=x",service="a b"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		good(w, r)
	})
}

func TestTokenLife(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, life string
		want       int // tokens for two requests
	}{{"long", "300", 1}, {"over at once", "0.000000001", 2}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var given []string
			client, repo := serve(t, tokenRegistry(tc.life, &given, &authorizations{}))
			for range 2 {
				if _, err := client.Manifest(t.Context(), repo, "1", ada); err != nil {
					t.Fatal(err)
				}
			}
			if len(given) != tc.want {
				t.Errorf("got %d tokens, want %d", len(given), tc.want)
			}
		})
	}
}

func TestRejectedTokenIsReplaced(t *testing.T) {
	t.Parallel()
	var given []string
	client, repo := serve(t, tokenRegistry("300", &given, &authorizations{}))
	for range 2 {
		if _, err := client.Manifest(t.Context(), repo, "1", ada); err != nil {
			t.Fatal(err)
		}
		given = append(given, "somebody else's") // the client's token is no longer valid
	}
	if len(given) != 4 {
		t.Errorf("got %v, want two tokens of the service", given)
	}
}

func TestRegistryNeverReceivesLogin(t *testing.T) {
	t.Parallel()
	var given []string
	seen := &authorizations{}
	client, repo := serve(t, tokenRegistry("300", &given, seen))
	if _, err := client.Manifest(t.Context(), repo, "1", ada); err != nil {
		t.Fatal(err)
	}
	want := "GET /v2/team/app/manifests/1 \nGET /token Basic YWRhOmNvcnJlY3QgaG9yc2U=\nGET /v2/team/app/manifests/1 Bearer t1"
	if seen.String() != want {
		t.Errorf("seen:\n%s\nwant:\n%s", seen, want)
	}
}

func TestTokenRequest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, challenge, want string }{
		{"all stated", `service="s x",scope="repository:a:pull repository:b:pull"`, "scope=repository%3Aa%3Apull&scope=repository%3Ab%3Apull&service=s+x"},
		{"nothing stated", ``, "scope=repository%3Ateam%2Fapp%3Apull"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			query := ""
			client, repo := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					query = r.URL.RawQuery
				}
				w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",`+tc.challenge)
				w.WriteHeader(http.StatusUnauthorized)
			}))
			if _, err := client.Manifest(t.Context(), repo, "1", ada); !errors.Is(err, fault.Unauthenticated) {
				t.Errorf("got %v", err)
			}
			if query != tc.want {
				t.Errorf("asked for %s, want %s", query, tc.want)
			}
		})
	}
}

func TestTokenServiceRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   error
	}{
		{"401", status(401, ""), fault.Unauthenticated},
		{"403", status(403, ""), fault.Denied},
		{"429", status(429, "9"), fault.Exhausted},
		{"500", status(500, ""), fault.Unavailable},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, fault.Unavailable},
		{"a web page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, fault.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			seen := &authorizations{}
			client, repo := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen.note(r)
				if r.URL.Path == "/token" {
					tc.answer(w, r)
					return
				}
				w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token"`)
				w.WriteHeader(http.StatusUnauthorized)
			}))
			if _, err := client.Manifest(t.Context(), repo, "1", ada); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if strings.Contains(seen.String(), "/elsewhere") {
				t.Error("the login was sent to another address")
			}
		})
	}
}

func TestForbiddenRealms(t *testing.T) {
	t.Parallel()
	stranger, asked := listen(t)
	for _, tc := range []struct{ name, realm string }{
		{"plain http", "http://" + stranger + "/token"},
		{"another scheme", "ftp://" + stranger + "/token"},
		{"no URL", "%zz"},
		{"a forbidden address", "https://169.254.169.254/token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			client, repo := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+tc.realm+`"`)
				w.WriteHeader(http.StatusUnauthorized)
			}))
			_, err := client.Manifest(t.Context(), repo, "1", ada)
			if !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Invalid) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Cleanup(func() {
		if *asked != 0 {
			t.Error("the login was sent without TLS")
		}
	})
}

// serveTLS is like serve with https, and the client trusts the certificate.
func serveTLS(t testing.TB, h http.Handler) (*upstream.Client, upstream.Repository) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	client := newClient(t, newEgress(t, "127.0.0.1"))
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	client.Trust(pool)
	return client, upstream.Repository{Host: strings.TrimPrefix(s.URL, "https://"), Name: "team/app"}
}

func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	client, repo := serveTLS(t, http.HandlerFunc(good))
	if _, err := client.Manifest(t.Context(), repo, "1", anonymous); err != nil {
		t.Errorf("trusted: %v", err)
	}
	client = newClient(t, newEgress(t, "127.0.0.1"))
	if _, err := client.Manifest(t.Context(), repo, "1", anonymous); !errors.Is(err, fault.Unavailable) {
		t.Errorf("not trusted: got %v, want fault.Unavailable", err)
	}
}
