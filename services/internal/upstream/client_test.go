package upstream_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

func newClient(t testing.TB, e *upstream.Egress, plain ...string) *upstream.Client {
	t.Helper()
	return upstream.New(upstream.Options{Egress: e, Plain: plain, Metrics: prometheus.NewRegistry()})
}

var (
	ada       = upstream.Access{Scope: "ada", Login: upstream.Login{Username: testkit.User, Password: testkit.Password}}
	anonymous = upstream.Access{}
)

// A world is a registry with one image, and a client for it.
type world struct {
	*testkit.Registry
	client *upstream.Client
	repo   upstream.Repository
	image  v1.Image
}

func newWorld(t testing.TB, auth testkit.Auth) world {
	t.Helper()
	r := testkit.NewRegistry(t, auth)
	img := testkit.Image(t, "amd64", true)
	r.Push(t, "team/app:1", img)
	r.Requests()
	return world{r, newClient(t, newEgress(t, "127.0.0.1"), r.Host), upstream.Repository{Host: r.Host, Name: "team/app"}, img}
}

func (w world) digest(t testing.TB) digest.Digest {
	t.Helper()
	h, err := w.image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.Digest(h.String())
}

func (w world) config(t testing.TB) ocispec.Descriptor {
	t.Helper()
	m, err := w.image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.Digest(m.Config.Digest.String()), Size: m.Config.Size}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		auth   testkit.Auth
		access upstream.Access
	}{{"open", testkit.Open, anonymous}, {"basic", testkit.Basic, ada}, {"bearer", testkit.Bearer, ada}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.auth)
			raw, err := w.image.RawManifest()
			if err != nil {
				t.Fatal(err)
			}
			want := oci.Document{MediaType: ocispec.MediaTypeImageManifest, Digest: w.digest(t), Bytes: raw}
			for _, ref := range []string{"1", w.digest(t).String()} {
				got, err := w.client.Manifest(t.Context(), w.repo, ref, tc.access)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("Manifest %s: %v %s", ref, err, diff)
				}
				if d, err := w.client.Resolve(t.Context(), w.repo, ref, tc.access); err != nil || d != want.Digest {
					t.Errorf("Resolve %s: %s, %v", ref, d, err)
				}
			}
			src := w.client.Source(w.repo, tc.access)
			config, err := src.Config(t.Context(), w.config(t))
			if wantConfig, _ := w.image.RawConfigFile(); err != nil || !bytes.Equal(config, wantConfig) {
				t.Errorf("Config: %v, %s", err, config)
			}
			if got, err := src.Manifest(t.Context(), want.Digest); err != nil || got.Digest != want.Digest {
				t.Errorf("Source: %v", err)
			}
			if err := w.client.Ping(t.Context(), w.Host, tc.access.Login); err != nil {
				t.Errorf("Ping: %v", err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	wrong := upstream.Access{Scope: "eve", Login: upstream.Login{Username: "eve", Password: "x"}}
	for _, tc := range []struct {
		name   string
		auth   testkit.Auth
		access upstream.Access
		ref    string
		want   fault.Kind
	}{
		{"no such tag", testkit.Open, anonymous, "2", fault.NotFound},
		{"no such digest", testkit.Open, anonymous, digest.FromString("x").String(), fault.NotFound},
		{"basic, no login", testkit.Basic, anonymous, "1", fault.Unauthenticated},
		{"basic, wrong login", testkit.Basic, wrong, "1", fault.Unauthenticated},
		{"bearer, no login", testkit.Bearer, anonymous, "1", fault.Unauthenticated},
		{"bearer, wrong login", testkit.Bearer, wrong, "1", fault.Unauthenticated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.auth)
			if _, err := w.client.Manifest(t.Context(), w.repo, tc.ref, tc.access); !errors.Is(err, tc.want) {
				t.Errorf("Manifest: got %v, want %v", err, tc.want)
			}
			if _, err := w.client.Resolve(t.Context(), w.repo, tc.ref, tc.access); !errors.Is(err, tc.want) {
				t.Errorf("Resolve: got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestPingAsksAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Basic)
	for _, tc := range []struct {
		name  string
		login upstream.Login
		want  error
	}{
		{"right", ada.Login, nil},
		{"wrong password", upstream.Login{Username: testkit.User, Password: "x"}, fault.Unauthenticated},
		{"right again", ada.Login, nil},
		{"none", upstream.Login{}, fault.Unauthenticated},
	} {
		if err := w.client.Ping(t.Context(), w.Host, tc.login); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	if got := w.Requests(); len(got) < 5 || got[0] != "GET /v2/" {
		t.Errorf("asked %v", got)
	}
}

// instead makes w respond to requests for path with f.
func (w world) instead(path string, f http.HandlerFunc) {
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, path) {
			return false
		}
		f(rw, r)
		return true
	})
}

func TestWrongContent(t *testing.T) {
	t.Parallel()
	other := []byte(`{"schemaVersion":2,"config":{"mediaType":"x","digest":"` + digest.FromString("x") + `","size":1}}`)
	serve := func(header string, raw []byte) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Docker-Content-Digest", header)
			_, _ = rw.Write(raw)
		}
	}
	large := append(bytes.Clone(other), bytes.Repeat([]byte(" "), limits.Document+1-len(other))...)
	for _, tc := range []struct {
		name, ref string // "" is the image's digest
		serve     http.HandlerFunc
		want      error
	}{
		{"other bytes than the digest", "", serve("", other), fault.Unavailable},
		{"other bytes, and their own digest", "", serve(digest.FromBytes(other).String(), other), fault.Unavailable},
		{"a tag, and bytes that do not match the header", "1", serve(digest.FromString("x").String(), other), fault.Unavailable},
		{"a tag without a header", "1", serve("", other), nil},
		{"a tag with a header that is no digest", "1", serve("x", other), nil},
		{"as large as allowed", "1", serve("", large[:limits.Document]), nil},
		{"too large", "1", serve("", large), fault.Unavailable},
		{"a web page", "1", serve("", []byte("<html>")), fault.Invalid},
		{"schema 1", "1", serve("", []byte(`{"schemaVersion":1}`)), fault.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkit.Open)
			if tc.ref == "" {
				tc.ref = w.digest(t).String()
			}
			w.instead("/manifests/", tc.serve)
			doc, err := w.client.Manifest(t.Context(), w.repo, tc.ref, anonymous)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if err == nil && doc.Digest != digest.FromBytes(doc.Bytes) {
				t.Errorf("%s is not the digest of the content", doc.Digest)
			}
		})
	}
}

func TestWrongConfig(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	w.instead("/blobs/", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(`{}`)) })
	if _, err := w.client.Config(t.Context(), w.repo, w.config(t), anonymous); !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want fault.Unavailable", err)
	}
}

func TestResolveWithoutTheHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	raw, _ := w.image.RawManifest()
	w.instead("/manifests/", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		if r.Method == http.MethodGet {
			_, _ = rw.Write(raw)
		}
	})
	if d, err := w.client.Resolve(t.Context(), w.repo, "1", anonymous); err != nil || d != w.digest(t) {
		t.Errorf("got %s, %v", d, err)
	}
}

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	seen := make(chan http.Header, 1)
	w.Intercept(func(_ http.ResponseWriter, r *http.Request) bool { seen <- r.Header; return false })
	if _, err := w.client.Manifest(t.Context(), w.repo, "1", ada); err != nil {
		t.Fatal(err)
	}
	h := <-seen
	for _, want := range []string{ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, oci.TypeDockerIndex, oci.TypeDockerManifest} {
		if !strings.Contains(h.Get("Accept"), want) {
			t.Errorf("Accept %q lacks %s", h.Get("Accept"), want)
		}
	}
	if h.Get("Authorization") != "" || h.Get("Accept-Encoding") != "" || h.Get("User-Agent") != "slipway" {
		t.Errorf("a registry without authentication received %v", h)
	}
}

func TestNamesAndAddresses(t *testing.T) {
	t.Parallel()
	c := newClient(t, newEgress(t), "localhost:5000")
	for _, tc := range []struct{ name, in, want string }{
		{"Docker Hub", "docker.io", "https://registry-1.docker.io"},
		{"others", "quay.io", "https://quay.io"},
		{"insecure", "localhost:5000", "http://localhost:5000"},
		{"another port", "localhost:5001", "https://localhost:5001"},
	} {
		if got := c.BaseURL(tc.in); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestLoginIsNotLogged(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "login", ada.Login)
	if strings.Contains(b.String(), testkit.Password) || !strings.Contains(b.String(), "[redacted]") {
		t.Errorf("logged %s", b.String())
	}
}
