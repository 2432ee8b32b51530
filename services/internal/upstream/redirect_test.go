package upstream_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// redirect redirects all blob requests to target.
func (w world) redirect(target string) {
	w.instead("/blobs/", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, target, http.StatusTemporaryRedirect)
	})
}

// storage is another host that serves raw and records the headers that it receives.
func storage(t testing.TB, raw []byte) (url string, seen *authorizations) {
	t.Helper()
	seen = &authorizations{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.note(r)
		if r.URL.Path == "/wants-a-login" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(raw)
	}))
	t.Cleanup(s.Close)
	return s.URL, seen
}

func TestRedirectReceivesNoLogin(t *testing.T) {
	t.Parallel()
	for _, auth := range []testkit.Auth{testkit.Basic, testkit.Bearer} {
		w := newWorld(t, auth)
		raw, _ := w.image.RawConfigFile()
		url, seen := storage(t, raw)
		w.redirect(url + "/content")
		got, err := w.client.Config(t.Context(), w.repo, w.config(t), ada)
		if err != nil || string(got) != string(raw) {
			t.Errorf("got %s, %v", got, err)
		}
		w.redirect(url + "/wants-a-login")
		if _, err := w.client.Config(t.Context(), w.repo, w.config(t), ada); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("got %v, want fault.Unauthenticated", err)
		}
		if want := "GET /content \nGET /wants-a-login "; seen.String() != want {
			t.Errorf("the other host saw:\n%s\nwant:\n%s", seen, want)
		}
	}
}

func TestConfigRedirects(t *testing.T) {
	t.Parallel()
	other, _ := storage(t, []byte("other"))
	for _, tc := range []struct {
		name, target string
		want         error
	}{
		{"metadata", "http://169.254.169.254/latest", fault.Invalid},
		{"a private address", "http://10.0.0.1/", fault.Invalid},
		{"other content", other, fault.Unavailable},
		{"itself, for ever", "/v2/team/app/blobs/round", fault.Unavailable},
		{"another scheme", "file:///etc/passwd", fault.Unavailable},
		{"no address", "http://%zz/", fault.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkit.Open)
			w.redirect(tc.target)
			if _, err := w.client.Config(t.Context(), w.repo, w.config(t), anonymous); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestHTTPSDoesNotLeadToHTTP(t *testing.T) {
	t.Parallel()
	other, seen := storage(t, nil)
	client, repo := serveTLS(t, http.RedirectHandler(other, http.StatusFound))
	w := newWorld(t, testkit.Open)
	if _, err := client.Config(t.Context(), repo, w.config(t), anonymous); !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want fault.Unavailable", err)
	}
	if seen.String() != "" {
		t.Errorf("asked %s", seen)
	}
}

func TestBlobRedirects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Basic)
	d := w.config(t).Digest
	w.redirect("http://storage.test/x?sig=1")
	b, err := w.client.Blob(t.Context(), http.MethodGet, w.repo, d, ada, "")
	if err != nil || b.Body != nil || b.Redirect.String() != "http://storage.test/x?sig=1" {
		t.Fatalf("to another host: got %+v, %v; want a redirect for the client", b, err)
	}

	seen := &authorizations{}
	w.instead("/blobs/", func(rw http.ResponseWriter, r *http.Request) {
		seen.note(r)
		if !strings.HasSuffix(r.URL.Path, "/moved") {
			http.Redirect(rw, r, r.URL.Path+"/moved", http.StatusFound)
			return
		}
		_, _ = rw.Write([]byte("here"))
	})
	b, err = w.client.Blob(t.Context(), http.MethodGet, w.repo, d, ada, "")
	if err != nil || b.Redirect != nil {
		t.Fatalf("within the registry: got %+v, %v; want the content", b, err)
	}
	defer b.Body.Close()
	if got, err := io.ReadAll(b.Body); err != nil || string(got) != "here" {
		t.Errorf("got %q, %v", got, err)
	}
	if n := strings.Count(seen.String(), "Basic "); n != 2 {
		t.Errorf("the login was not sent to the registry only:\n%s", seen)
	}
}

func TestBlobRedirectsToNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	w.instead("/blobs/", status(http.StatusFound, ""))
	if b, err := w.client.Blob(t.Context(), http.MethodGet, w.repo, w.config(t).Digest, anonymous, ""); !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %+v, %v; want fault.Unavailable", b, err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	hops := 0
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/whole":
			_, _ = rw.Write([]byte("all of it"))
		case "/part":
			if r.Header.Get("Range") != "bytes=0-0" || r.Header.Get("Authorization") != "" {
				t.Errorf("headers %v", r.Header)
			}
			rw.WriteHeader(http.StatusPartialContent)
		case "/hops":
			if hops++; hops < 6 {
				http.Redirect(rw, r, "/hops", http.StatusFound)
			}
		case "/round":
			http.Redirect(rw, r, "/round", http.StatusFound)
		case "/metadata":
			http.Redirect(rw, r, "http://169.254.169.254/", http.StatusFound)
		case "/nowhere":
			rw.WriteHeader(http.StatusFound)
		default:
			rw.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	for _, tc := range []struct{ name, url, want string }{
		{"whole", s.URL + "/whole", ""},
		{"part", s.URL + "/part", ""},
		{"five redirects", s.URL + "/hops", ""},
		{"too many redirects", s.URL + "/round", "too many redirects"},
		{"redirect to metadata", s.URL + "/metadata", "not a public address"},
		{"redirect to nowhere", s.URL + "/nowhere", "redirects without a valid Location"},
		{"missing", s.URL + "/x", "returned status 404"},
		{"metadata", "http://169.254.169.254/", "not a public address"},
		{"no listener", "http://127.0.0.1:" + testkit.FreePort(t) + "/", "cannot be reached"},
		{"malformed", "http://%zz/", "malformed"},
	} {
		err := w.client.Probe(t.Context(), tc.url)
		if tc.want == "" && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		e, _ := fault.As(err)
		if tc.want != "" && (!errors.Is(err, fault.Invalid) || !strings.Contains(e.Public, tc.want)) {
			t.Errorf("%s: got %v, want fault.Invalid with %q", tc.name, err, tc.want)
		}
	}
}
