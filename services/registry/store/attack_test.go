package store_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

// A testStore is an image store with the image of a victim.
type testStore struct {
	*store.Store
	url  string
	all  upstream.Login
	blob string // digest of a layer of the victim's
}

func newTestStore(t *testing.T) testStore {
	t.Helper()
	s := testStore{all: upstream.Login{Username: "slipway", Password: "secret"}}
	s.Store = store.New(t.TempDir(), s.all, testkit.Log(t))
	server := httptest.NewServer(s)
	s.url = server.URL
	t.Cleanup(server.Close)
	img := s.made(t, "aaaa_1")
	for _, ref := range []string{"builds:aaaa", "builds/victim:aaaa", "builds/x/victim:aaaa"} {
		if err := s.push(t, ref, img, s.all); err != nil {
			t.Fatal(err)
		}
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	d, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.blob = d.String()
	return s
}

// made returns an image with the annotation of a build.
func (s testStore) made(t *testing.T, build string) v1.Image {
	t.Helper()
	img, ok := mutate.Annotations(testkit.Image(t, "amd64", true), map[string]string{"dev.slipway.build-id": build}).(v1.Image)
	if !ok {
		t.Fatal("no image")
	}
	return img
}

func (s testStore) push(t *testing.T, ref string, img v1.Image, l upstream.Login) error {
	t.Helper()
	to, err := name.ParseReference(strings.TrimPrefix(s.url, "http://")+"/"+ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return remote.Write(to, img, remote.WithAuth(&authn.Basic{Username: l.Username, Password: l.Password}))
}

func (s testStore) ask(t *testing.T, method, path string, l upstream.Login) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(l.Username, l.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

func grant(repository, tag, build string) caller.Grant {
	return caller.Grant{Repository: repository, Tag: tag, Build: build, Until: time.Now().Add(time.Hour)}
}

// TestStolenStoreLogin verifies that the login of one build permits nothing else.
func TestStolenStoreLogin(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	mine := s.Grant(grant("builds", "eeee", "eeee_1"))
	reads, readsOnly := grant("builds", "eeee", "eeee_1"), grant("", "", "eeee_1")
	reads.Reads, readsOnly.Reads = []string{"builds/eve"}, []string{"builds/eve"}
	for name, l := range map[string]upstream.Login{
		"shared": mine, "private": s.Grant(grant("builds/eve", "eeee", "eeee_1")), "with reads": s.Grant(reads), "only reads": s.Grant(readsOnly),
	} {
		for _, tc := range []struct{ method, path string }{
			{"GET", "/v2/_catalog"},
			{"GET", "/v2/builds/tags/list"},
			{"GET", "/v2/builds/manifests/aaaa"},
			{"HEAD", "/v2/builds/manifests/aaaa"},
			{"PUT", "/v2/builds/manifests/aaaa"},
			{"DELETE", "/v2/builds/manifests/aaaa"},
			{"DELETE", "/v2/builds/manifests/" + s.blob},
			{"DELETE", "/v2/builds/blobs/" + s.blob},
			{"GET", "/v2/builds/referrers/" + s.blob},
			{"GET", "/v2/builds/victim/manifests/aaaa"},
			{"GET", "/v2/builds/victim/blobs/" + s.blob},
			{"HEAD", "/v2/builds/victim/blobs/" + s.blob},
			{"POST", "/v2/builds/victim/blobs/uploads/"},
			{"PUT", "/v2/builds/victim/manifests/eeee"},
			{"PUT", "/v2/builds/victim/manifests/aaaa"},
			{"GET", "/v2/builds/x/victim/manifests/aaaa"},
			{"GET", "/v2/builds/manifests/../victim/manifests/aaaa"},
			{"GET", "/v2/builds/blobs/%2e%2e/%2e%2e/victim/manifests/aaaa"},
			{"GET", "/v2/builds%2fvictim/manifests/aaaa"},
			{"GET", "/v2//builds/victim/manifests/aaaa"},
			{"GET", "/v2/builds/blobs/uploads/../../../victim/manifests/aaaa"},
			{"PATCH", "/v2/builds/victim/blobs/uploads/x"},
			{"GET", "/v2/builds/eve/../victim/manifests/aaaa"},
		} {
			if r := s.ask(t, tc.method, tc.path, l); r.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s %s returned %d", name, tc.method, tc.path, r.StatusCode)
			}
		}
	}
	// Repositories in Reads are read by digest only.
	given := grant("", "", "eeee_1")
	given.Reads = []string{"builds/victim"}
	for ask, want := range map[string]int{
		"GET /v2/builds/victim/blobs/" + s.blob: http.StatusOK, "HEAD /v2/builds/victim/blobs/" + s.blob: http.StatusOK,
		"GET /v2/builds/victim/manifests/" + s.blob: http.StatusNotFound, "GET /v2/builds/victim/manifests/aaaa": http.StatusForbidden,
		"GET /v2/builds/victim/tags/list": http.StatusForbidden, "GET /v2/builds/victim/x/blobs/" + s.blob: http.StatusForbidden,
		"PUT /v2/builds/victim/manifests/" + s.blob: http.StatusForbidden, "POST /v2/builds/victim/blobs/uploads/": http.StatusForbidden,
		"DELETE /v2/builds/victim/blobs/" + s.blob: http.StatusForbidden, "POST /v2//blobs/uploads/": http.StatusForbidden, "PUT /v2//manifests/": http.StatusForbidden,
	} {
		method, path, _ := strings.Cut(ask, " ")
		if r := s.ask(t, method, path, s.Grant(given)); r.StatusCode != want {
			t.Errorf("%s returned %d, want %d", ask, r.StatusCode, want)
		}
	}
	// A mount from another repository starts an upload.
	q := url.Values{"mount": {s.blob}, "from": {"builds/victim"}}
	private := s.Grant(grant("builds/eve", "eeee", "eeee_1"))
	if r := s.ask(t, "POST", "/v2/builds/eve/blobs/uploads/?"+q.Encode(), private); r.StatusCode != http.StatusAccepted {
		t.Errorf("a mount returned %d", r.StatusCode)
	}
	if r := s.ask(t, "HEAD", "/v2/builds/eve/blobs/"+s.blob, private); r.StatusCode != http.StatusNotFound {
		t.Errorf("reading a blob that was not mounted returned %d", r.StatusCode)
	}
	// A mount from a repository in Reads succeeds.
	reads = grant("builds/eve", "eeee", "eeee_1")
	reads.Reads = []string{"builds/victim"}
	if r := s.ask(t, "POST", "/v2/builds/eve/blobs/uploads/?"+q.Encode(), s.Grant(reads)); r.StatusCode != http.StatusCreated {
		t.Errorf("a mount from a readable repository returned %d", r.StatusCode)
	}
	if r := s.ask(t, "HEAD", "/v2/builds/eve/blobs/"+s.blob, private); r.StatusCode != http.StatusOK {
		t.Errorf("reading the mounted blob returned %d", r.StatusCode)
	}
}

// TestStolenStoreLoginGrantsOneRepository pushes manifests by digest with tags in the query.
func TestStolenStoreLoginGrantsOneRepository(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	img := s.made(t, "eeee_1")
	l := s.Grant(grant("builds", "eeee", "eeee_1"))
	if err := s.push(t, "builds:eeee", img, l); err != nil {
		t.Fatal(err)
	}
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	d := digest.FromBytes(raw).String()
	for query, want := range map[string]int{
		"": http.StatusCreated, "?tag=aaaa": http.StatusForbidden, "?tag=new": http.StatusForbidden, "?tag=eeee&tag=aaaa": http.StatusForbidden, "?tag": http.StatusForbidden,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+"/v2/builds/manifests/"+d+query, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(l.Username, l.Password)
		req.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q returned %d, want %d", query, resp.StatusCode, want)
		}
	}
	if got := s.ask(t, "HEAD", "/v2/builds/manifests/aaaa", s.all).Header.Get("Docker-Content-Digest"); got == d || got == "" {
		t.Errorf("the victim's tag refers to the image of %q", got)
	}
}

// TestForgedStoreLogins verifies that logins which the store did not issue, or which have
// expired, are rejected.
func TestForgedStoreLogins(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	good := s.Grant(grant("builds", "eeee", "eeee_1"))
	other := store.New(t.TempDir(), s.all, testkit.Log(t))
	late := grant("builds", "aaaa", "aaaa_1")
	late.Until = time.Now().Add(-time.Second)
	text, seal, _ := strings.Cut(s.Grant(grant("builds", "aaaa", "aaaa_1")).Password, ".")
	_, mySeal, _ := strings.Cut(good.Password, ".")
	for name, l := range map[string]upstream.Login{
		"no password":          {Username: "eeee_1"},
		"another's name":       {Username: "aaaa_1", Password: good.Password},
		"another seal":         {Username: "aaaa_1", Password: text + "." + mySeal},
		"no seal":              {Username: "aaaa_1", Password: text + "."},
		"half a seal":          {Username: "aaaa_1", Password: text + "." + seal[:20]},
		"of another process":   other.Grant(grant("builds", "aaaa", "aaaa_1")),
		"ended":                s.Grant(late),
		"the service's name":   {Username: s.all.Username, Password: good.Password},
		"the service's, wrong": {Username: s.all.Username, Password: "Secret"},
	} {
		if r := s.ask(t, "GET", "/v2/builds/manifests/aaaa", l); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: returned %d", name, r.StatusCode)
		}
	}
}

// TestBuildPushesImage verifies that a login permits to push the build's image, and not
// to replace it.
func TestBuildPushesImage(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	for _, tc := range []struct {
		name, ref, build string
		grant            caller.Grant
		want             bool
	}{
		{"its own", "builds/eve:eeee", "eeee_1", grant("builds/eve", "eeee", "eeee_1"), true},
		{"again, by another delivery", "builds/eve:eeee", "eeee_1", grant("builds/eve", "eeee", "eeee_1"), true},
		{"another build", "builds/eve:eeee", "eeee_2", grant("builds/eve", "eeee", "eeee_2"), false},
		{"another build that says it is the first", "builds/eve:eeee", "eeee_1", grant("builds/eve", "eeee", "eeee_2"), false},
		{"a victim's name, by a build of the same content", "builds:aaaa", "aaaa_2", grant("builds", "aaaa", "aaaa_2"), false},
		{"another tag", "builds/eve:ffff", "eeee_1", grant("builds/eve", "eeee", "eeee_1"), false},
		{"in the shared repository", "builds:eeee", "eeee_1", grant("builds", "eeee", "eeee_1"), true},
		{"a repository that is called manifests", "builds/manifests:eeee", "eeee_1", grant("builds/manifests", "eeee", "eeee_1"), true},
	} {
		err := s.push(t, tc.ref, s.made(t, tc.build), s.Grant(tc.grant))
		if (err == nil) != tc.want {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestSameImageIsPushedAgain verifies that an image without a build ID may be pushed
// again, as after a worker was killed, but not replaced by another image.
func TestSameImageIsPushedAgain(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	img := s.made(t, "")
	if err := s.push(t, "builds:ffff", img, s.Grant(grant("builds", "ffff", "ffff_1"))); err != nil {
		t.Fatal(err)
	}
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	l := s.Grant(grant("builds", "ffff", "ffff_2"))
	for text, want := range map[string]int{string(raw): http.StatusCreated, strings.Replace(string(raw), "{", "{ ", 1): http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+"/v2/builds/manifests/ffff", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(l.Username, l.Password)
		req.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("pushing %d bytes returned %d, want %d", len(text), resp.StatusCode, want)
		}
	}
}

func FuzzGrant(f *testing.F) {
	s := store.New(f.TempDir(), upstream.Login{Username: "slipway", Password: "secret"}, testkit.Log(f))
	f.Add("a_1", s.Grant(grant("builds", "a", "a_1")).Password+"x")
	f.Add("", ".")
	f.Fuzz(func(t *testing.T, user, password string) {
		req := httptest.NewRequest(http.MethodGet, "/v2/", nil)
		req.SetBasicAuth(user, password)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("login %q %q returned %d", user, password, w.Code)
		}
	})
}
