package upstream_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// A copied registry requires authentication and has a mirror, at the path "hub", which does
// not. leaks counts the logins that the mirror received.
type copied struct {
	world
	mirror  *testkit.Registry
	control *upstream.Control
	leaks   atomic.Int32
}

func newCopied(t *testing.T, auth testkit.Auth) *copied {
	t.Helper()
	c := &copied{world: newWorld(t, auth), mirror: testkit.NewRegistry(t, testkit.Open)}
	o := upstream.Options{
		Egress: newEgress(t, "127.0.0.1"), Plain: []string{c.Host, c.mirror.Host}, Metrics: prometheus.NewRegistry(),
		Mirrors: []upstream.Mirror{{Registry: c.Host, Host: c.mirror.Host, Path: "hub"}},
	}
	c.client, c.control = upstream.New(o), upstream.NewControl(o)
	c.answer(nil)
	return c
}

// answer makes the mirror respond with f, or as a registry if f is nil, and record logins.
func (c *copied) answer(f http.HandlerFunc) {
	c.mirror.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			c.leaks.Add(1)
		}
		if f != nil {
			f(w, r)
		}
		return f != nil
	})
}

// read reads the image in all ways, and returns the numbers of requests to the registry and
// the mirror.
func (c *copied) read(t *testing.T, a upstream.Access) (asked, mirrored int) {
	t.Helper()
	c.Requests()
	c.mirror.Requests()
	got, err := c.client.Resolve(t.Context(), c.repo, "1", a)
	if err != nil || got != c.digest(t) {
		t.Errorf("the tag: %s, %v", got, err)
	}
	if _, err := c.client.Config(t.Context(), c.repo, c.config(t), a); err != nil {
		t.Errorf("the config: %v", err)
	}
	blob, err := c.client.Blob(t.Context(), http.MethodGet, c.repo, c.config(t).Digest, a, "")
	if err != nil {
		t.Fatalf("the blob: %v", err)
	}
	defer blob.Body.Close()
	if raw, err := io.ReadAll(blob.Body); err != nil || digest.FromBytes(raw) != c.config(t).Digest {
		t.Errorf("the blob: %d bytes, %v", len(raw), err)
	}
	name, err := ref.New(c.Host + "/team/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.control.For(a, c.Host).ManifestGet(t.Context(), name); err != nil {
		t.Errorf("regclient: %v", err)
	}
	if c.leaks.Load() != 0 {
		t.Error("the mirror received a login")
	}
	return len(c.Requests()), len(c.mirror.Requests())
}

// TestMirrorsAreTriedFirst verifies that the registry gets no requests if a mirror has the
// image.
func TestMirrorsAreTriedFirst(t *testing.T) {
	t.Parallel()
	for _, auth := range []testkit.Auth{testkit.Open, testkit.Basic, testkit.Bearer} {
		c := newCopied(t, auth)
		c.mirror.Push(t, "hub/team/app:1", c.image)
		if asked, mirrored := c.read(t, ada); asked != 0 || mirrored == 0 {
			t.Errorf("%d requests went to the registry, %d to the mirror", asked, mirrored)
		}
	}
}

// TestMirrorsThatLackTheImage verifies that the registry is used if a mirror lacks the
// image or requires authentication. Logins are only sent to the registry.
func TestMirrorsThatLackTheImage(t *testing.T) {
	t.Parallel()
	for _, auth := range []testkit.Auth{testkit.Open, testkit.Basic, testkit.Bearer} {
		c := newCopied(t, auth)
		if asked, mirrored := c.read(t, ada); asked == 0 || mirrored == 0 {
			t.Errorf("without the image: %d requests went to the registry, %d to the mirror", asked, mirrored)
		}
		for _, challenge := range []string{`Basic realm="x"`, fmt.Sprintf(`Bearer realm="http://%s/token"`, c.mirror.Host)} {
			c.answer(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(http.StatusUnauthorized)
			})
			if asked, _ := c.read(t, ada); asked == 0 {
				t.Errorf("with %s the registry got no request", challenge)
			}
		}
	}
}

// TestMirrorsThatRefuseOneRepository verifies that a mirror that denies access to one
// repository, itself or in its token service, is still used for others.
func TestMirrorsThatRefuseOneRepository(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		c := newCopied(t, testkit.Open)
		c.answer(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/refusing" {
				w.WriteHeader(status)
				return
			}
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/refusing"`, c.mirror.Host))
			w.WriteHeader(http.StatusUnauthorized)
		})
		if asked, _ := c.read(t, anonymous); asked == 0 {
			t.Errorf("its token service returned %d: the registry got no request", status)
		}
		c.answer(nil)
		c.mirror.Push(t, "hub/team/app:1", c.image)
		if asked, mirrored := c.read(t, anonymous); asked != 0 || mirrored == 0 {
			t.Errorf("after its token service returned %d, %d requests went to the registry, %d to the mirror", status, asked, mirrored)
		}
	}
}

// TestMirrorsAreNotUsedForOtherURLs verifies that other URLs, which use the same
// transport, are not requested from a mirror and do not mark it as unavailable.
func TestMirrorsAreNotUsedForOtherURLs(t *testing.T) {
	t.Parallel()
	c := newCopied(t, testkit.Open)
	c.mirror.Push(t, "hub/team/app:1", c.image)
	blob := c.config(t).Digest.String()
	c.mirror.Requests()
	for _, path := range []string{
		"/v2/team/app/blobs/" + blob + "%3Fx=y", "/v2/team/app/blobs/" + blob + "%23x",
		"/v2/../../x/blobs/" + blob, "/v2/team/../../../x/blobs/" + blob, "/v2/team/app/blobs/..", "/v2/team/app/blobs/%2e%2e", "/v2/team%2Fapp/blobs/" + blob,
		"/v2/team/app/manifests/..", "/v2/team/app/manifests/1/2", "/v2/team/app/blobs/uploads", "/v2/team/app/blobs/uploads/x", "/v2//blobs/" + blob,
		"/v2/Team/blobs/" + blob, "/v2/team/app/blobs/" + blob + "%0a", "/v2/team/app/manifests/" + strings.Repeat("x", 129), "/v2/%25zz/blobs/" + blob, "/v2/team/app/blobs/%25zz",
	} {
		if resp, err := c.client.Fetch(t.Context(), "http://"+c.Host+path); err == nil {
			_ = resp.Body.Close()
		}
		if asked := c.mirror.Requests(); len(asked) != 0 {
			t.Errorf("%s: the mirror got the requests %q", path, asked)
		}
	}
	if asked, mirrored := c.read(t, anonymous); asked != 0 || mirrored == 0 {
		t.Errorf("after that, %d requests went to the registry, %d to the mirror", asked, mirrored)
	}
}

// TestUnavailableMirrors verifies that an unavailable mirror is tried once and then skipped
// for a while.
func TestUnavailableMirrors(t *testing.T) {
	t.Parallel()
	c := newCopied(t, testkit.Bearer)
	c.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if asked, mirrored := c.read(t, ada); asked == 0 || mirrored != 2 { // one from Client, and one from Control
		t.Errorf("%d requests went to the registry, %d to the mirror", asked, mirrored)
	}
	gone := upstream.New(upstream.Options{
		Egress: newEgress(t, "127.0.0.1"), Plain: []string{c.Host}, Metrics: prometheus.NewRegistry(),
		Mirrors: []upstream.Mirror{{Registry: c.Host, Host: "127.0.0.1:" + testkit.FreePort(t)}},
	})
	if _, err := gone.Resolve(t.Context(), c.repo, "1", ada); err != nil {
		t.Errorf("with a stopped mirror: %v", err)
	}
}

// TestMirrorsThatRedirect verifies that redirects within a mirror are followed, and others
// only if clients may be redirected there.
func TestMirrorsThatRedirect(t *testing.T) {
	t.Parallel()
	c := newCopied(t, testkit.Bearer)
	c.mirror.Push(t, "store/team/app:1", c.image)
	c.mirror.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/v2/hub/") {
			return false
		}
		http.Redirect(w, r, strings.Replace(r.URL.Path, "/hub/", "/store/", 1), http.StatusTemporaryRedirect)
		return true
	})
	if asked, _ := c.read(t, ada); asked != 0 {
		t.Errorf("%d requests went to the registry", asked)
	}
	for _, to := range []string{
		"http://127.0.0.1:1/x", "https://u:p@example.org/", "ftp://example.org/", "https:///x", "https://10.0.0.1/x", "https://169.254.169.254/x", "https://0x7f000001/x",
	} {
		c.answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) })
		if asked, _ := c.read(t, ada); asked == 0 {
			t.Errorf("%s was followed", to)
		}
	}
	c.answer(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://1.1.1.1/blob", http.StatusTemporaryRedirect)
	})
	blob, err := c.client.Blob(t.Context(), http.MethodGet, c.repo, c.config(t).Digest, ada, "")
	if err != nil || blob.Redirect == nil || blob.Redirect.String() != "https://1.1.1.1/blob" {
		t.Errorf("a blob on another host: %+v, %v", blob, err)
	}
}

// TestMirrorsAreNotWrittenTo verifies that pushes, including the checks before them, use
// the registry only.
func TestMirrorsAreNotWrittenTo(t *testing.T) {
	t.Parallel()
	c := newCopied(t, testkit.Bearer)
	name, err := ref.New(c.Host + "/team/app:2")
	if err != nil {
		t.Fatal(err)
	}
	content := []byte("new")
	d := descriptor.Descriptor{Digest: digest.FromBytes(content), Size: int64(len(content)), MediaType: "application/octet-stream"}
	if _, err := c.control.For(ada, c.Host).BlobPut(t.Context(), name, d, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Ping(t.Context(), c.Host, ada.Login); err != nil {
		t.Error(err)
	}
	if asked := c.mirror.Requests(); len(asked) != 0 {
		t.Errorf("the mirror got the requests %q", asked)
	}
}

func TestParseMirrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"docker.io=mirror.corp:5000/dockerhub": "[{docker.io mirror.corp:5000 dockerhub}]",
		"index.docker.io=localhost":            "[{docker.io localhost }]",
		"quay.io=127.0.0.1:5000/a/b-c":         "[{quay.io 127.0.0.1:5000 a/b-c}]",
		"quay.io=mirror:5000/":                 "[{quay.io mirror:5000 }]",
		"ghcr.io=[fd00::1]:5000":               "[{ghcr.io [fd00::1]:5000 }]",
		"quay.io=quay.io/proxy":                "[{quay.io quay.io proxy}]",
		"":                                     "", "docker.io": "", "docker.io=": "", "=a.example": "", "docker.io=https://a.example": "", "docker.io=a.example/A": "", "docker.io=a.example/a:b": "",
		"docker.io/library=a.example": "", "docker.io=docker.io": "", "quay.io=QUAY.io": "", "docker.io=a.example/../b": "", "docker.io=u@a.example": "", "docker.io=mirror": "",
	} {
		got, err := upstream.ParseMirrors([]string{text})
		if want == "" && err == nil || want != "" && (err != nil || fmt.Sprint(plainMirrors(got)) != want) {
			t.Errorf("%q: %v, %v; want %s", text, plainMirrors(got), err, want)
		}
	}
	for _, m := range []upstream.Mirror{{Host: "a.example", Path: "b"}, {Host: "a.example"}} {
		if got := m.String(); got != strings.TrimSuffix("a.example/"+m.Path, "/") {
			t.Errorf("String of %+v is %s", m, got)
		}
	}
}

// plainMirrors formats mirrors field by field.
func plainMirrors(list []upstream.Mirror) (out []struct{ registry, host, path string }) {
	for _, m := range list {
		out = append(out, struct{ registry, host, path string }{m.Registry, m.Host, m.Path})
	}
	return out
}
