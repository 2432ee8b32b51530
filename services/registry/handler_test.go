package registry_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry"
	"slipway.dev/services/registry/blob"
)

// named is a container service that knows one name.
type named struct {
	containerv1.ContainerServiceClient
	plan *containerv1.Plan
}

// ListAttestations returns none, like a service without a key.
func (named) ListAttestations(context.Context, *containerv1.ListAttestationsRequest, ...grpc.CallOption) (*containerv1.ListAttestationsResponse, error) {
	return &containerv1.ListAttestationsResponse{}, nil
}

func (n named) ResolveToken(_ context.Context, req *containerv1.ResolveTokenRequest, _ ...grpc.CallOption) (*containerv1.ResolveTokenResponse, error) {
	if req.GetToken() != n.plan.GetToken() {
		return nil, fault.NotFound.Newf("there is no such token")
	}
	return &containerv1.ResolveTokenResponse{Plan: n.plan}, nil
}

func (named) RecordDigest(context.Context, *containerv1.RecordDigestRequest, ...grpc.CallOption) (*containerv1.RecordDigestResponse, error) {
	return &containerv1.RecordDigestResponse{}, nil
}

// front is a registry that serves one name for an image in the registry up.
type front struct {
	http.Handler
	up *testkit.Registry
	// name is the path below /v2/; index, manifest, config and layer are digests of the
	// image's parts, and size is the layer's size.
	name, index, manifest, config, layer string
	size                                 int64
	// run is the registry's background work.
	run func(context.Context) error
}

// newFront serves lib/tool:v1 with one more variable, and allows the given number of pulls.
func newFront(t *testing.T, pulls int) *front {
	t.Helper()
	return newFrontWith(t, pulls, func(*registry.Deps) {})
}

// newFrontWith is newFront with a change of the registry's dependencies.
func newFrontWith(t *testing.T, pulls int, augmentation func(*registry.Deps)) *front {
	t.Helper()
	up := testkit.NewRegistry(t, testkit.Open)
	up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64", "arm64"))
	f := newFrontOf(t, up, pulls, augmentation)
	f.look(t)
	return f
}

// newFrontOf serves lib/tool:v1 of a registry, without having looked at it.
func newFrontOf(t *testing.T, up *testkit.Registry, pulls int, augmentation func(*registry.Deps)) *front {
	t.Helper()
	f := &front{up: up, name: "/v2/wt/abcdef/lib/tool"}
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	to := upstream.Options{Egress: egress, Plain: []string{f.up.Host}, Metrics: prometheus.NewRegistry()}
	client := upstream.New(to)
	deps := registry.Deps{
		Containers: named{plan: &containerv1.Plan{
			Token: "abcdef", Name: "lib/tool", Reference: "v1", Platform: "linux/amd64",
			Source:     &containerv1.Source{Registry: f.up.Host, Repository: "lib/tool", Reference: "v1"},
			Config:     &containerv1.ContainerConfig{Env: []string{"GREETING=hello"}},
			Expiration: timestamppb.New(time.Now().Add(time.Hour)),
		}},
		Bus: testkit.NATS(t), Upstream: client, Reads: pullthrough.Direct(client), Control: upstream.NewControl(to), Keychain: caller.NewKeychain(nil, nil),
		Blobs: openBlobs(t, blob.Config{}), Limiter: ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t)), Metrics: prometheus.NewRegistry(),
		Log: testkit.Log(t), Now: time.Now,
		Settings: registry.Settings{
			LayerDir: t.TempDir(), LayerCache: 1 << 20, ImageCache: 1 << 20, PublicURL: "https://slipway.test",
		},
	}
	deps.Limiter.SetLimits(ratelimit.Limits{ratelimit.Pulls: {Anonymous: ratelimit.Limit{{Count: pulls, Window: time.Hour}}}})
	augmentation(&deps)
	r, err := registry.New(deps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	f.run = r.Run
	f.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := rpc.Call{ClientIP: netip.MustParseAddr("192.0.2.1"), RequestID: "request"}
		r.ServeHTTP(w, req.WithContext(rpc.WithCall(req.Context(), call)))
	})
	return f
}

// openBlobs opens a cache of blobs and closes it when the test ends.
func openBlobs(t *testing.T, c blob.Config) blob.Cache {
	t.Helper()
	c.Metrics, c.Log, c.Now = prometheus.NewRegistry(), testkit.Log(t), time.Now
	cache, err := blob.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

// look reads the digests that the name resolves to. It uses one pull.
func (f *front) look(t *testing.T) {
	t.Helper()
	ask := func(path string, into any) string {
		w := f.ask(http.MethodGet, f.name+path)
		if err := json.Unmarshal(w.Body.Bytes(), into); w.Code != http.StatusOK || err != nil {
			t.Fatalf("%s is answered %d: %s", path, w.Code, w.Body)
		}
		return w.Header().Get("Docker-Content-Digest")
	}
	var index v1.IndexManifest
	f.index = ask("/manifests/v1", &index)
	f.manifest = index.Manifests[0].Digest.String()
	var m v1.Manifest
	ask("/manifests/"+f.manifest, &m)
	f.config, f.layer, f.size = m.Config.Digest.String(), m.Layers[0].Digest.String(), m.Layers[0].Size
}

func (f *front) json(t *testing.T, path string, into any) {
	t.Helper()
	if err := json.Unmarshal(f.ask(http.MethodGet, path).Body.Bytes(), into); err != nil {
		t.Fatal(err)
	}
}

func (f *front) ask(method, path string, header ...string) *httptest.ResponseRecorder {
	req, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	f.ServeHTTP(w, req)
	return w
}

// TestDistributionAPI checks the pull requirements of the OCI distribution specification
// ("Pull", "Content Discovery" and "Error Codes").
func TestDistributionAPI(t *testing.T) {
	t.Parallel()
	const index, manifest = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
	f := newFront(t, 1000)
	unknown := "sha256:" + strings.Repeat("0", 64)
	for _, tc := range []struct {
		name, method, path string
		header             []string
		status             int
		code               string
		want               map[string]string
	}{
		{"ping", "GET", "/v2/", nil, 200, "", map[string]string{"Docker-Distribution-Api-Version": "registry/2.0", "Content-Type": "application/json"}},
		{"ping, HEAD", "HEAD", "/v2/", nil, 200, "", nil},
		{"tag", "GET", f.name + "/manifests/v1", nil, 200, "", map[string]string{"Docker-Content-Digest": f.index, "Content-Type": index, "Etag": `"` + f.index + `"`}},
		{"tag, HEAD", "HEAD", f.name + "/manifests/v1", nil, 200, "", map[string]string{"Docker-Content-Digest": f.index, "Content-Type": index}},
		{"tag that is known", "GET", f.name + "/manifests/v1", []string{"If-None-Match", `W/"` + f.index + `"`}, 304, "", map[string]string{"Docker-Content-Digest": f.index}},
		{"digest", "GET", f.name + "/manifests/" + f.manifest, nil, 200, "", map[string]string{"Docker-Content-Digest": f.manifest, "Content-Type": manifest, "RateLimit-Limit": "1000"}},
		{"digest, HEAD", "HEAD", f.name + "/manifests/" + f.manifest, nil, 200, "", map[string]string{"Docker-Content-Digest": f.manifest, "RateLimit-Limit": ""}},
		{"another tag", "GET", f.name + "/manifests/v2", nil, 404, "MANIFEST_UNKNOWN", nil},
		{"another digest", "GET", f.name + "/manifests/" + unknown, nil, 404, "MANIFEST_UNKNOWN", nil},
		{"another digest, HEAD", "HEAD", f.name + "/manifests/" + unknown, nil, 404, "", nil},
		{"malformed digest", "GET", f.name + "/manifests/sha256:12", nil, 400, "DIGEST_INVALID", nil},
		{"config", "GET", f.name + "/blobs/" + f.config, nil, 200, "", map[string]string{"Docker-Content-Digest": f.config, "Content-Type": "application/octet-stream"}},
		{"layer", "GET", f.name + "/blobs/" + f.layer, nil, 200, "", map[string]string{"Docker-Content-Digest": f.layer, "Accept-Ranges": "bytes"}},
		{"layer, HEAD", "HEAD", f.name + "/blobs/" + f.layer, nil, 200, "", map[string]string{"Docker-Content-Digest": f.layer}},
		{"layer that is known", "GET", f.name + "/blobs/" + f.layer, []string{"If-None-Match", `"` + f.layer + `"`}, 304, "", nil},
		{"part of a layer", "GET", f.name + "/blobs/" + f.layer, []string{"Range", "bytes=1-4"}, 206, "", map[string]string{"Content-Length": "4"}},
		{"part of a config", "GET", f.name + "/blobs/" + f.config, []string{"Range", "bytes=1-4"}, 206, "", map[string]string{"Content-Length": "4"}},
		{"nothing of a layer", "GET", f.name + "/blobs/" + f.layer, []string{"Range", "bytes=9999999-"}, 416, "", map[string]string{"Docker-Content-Digest": ""}},
		{"another blob", "GET", f.name + "/blobs/" + unknown, nil, 404, "BLOB_UNKNOWN", nil},
		{"malformed blob", "GET", f.name + "/blobs/latest", nil, 400, "DIGEST_INVALID", nil},
		{"tags", "GET", f.name + "/tags/list", nil, 200, "", map[string]string{"Content-Type": "application/json"}},
		{"referrers", "GET", f.name + "/referrers/" + f.index, nil, 200, "", map[string]string{"Content-Type": index, "Oci-Filters-Applied": ""}},
		{"referrers of a type", "GET", f.name + "/referrers/" + f.index + "?artifactType=a/b", nil, 200, "", map[string]string{"Oci-Filters-Applied": "artifactType"}},
		{"malformed referrers", "GET", f.name + "/referrers/v1", nil, 400, "DIGEST_INVALID", nil},
		{"another token", "GET", "/v2/wt/fedcba/lib/tool/manifests/v1", nil, 404, "NAME_UNKNOWN", nil},
		{"another name", "GET", "/v2/wt/abcdef/lib/other/manifests/v1", nil, 404, "NAME_UNKNOWN", nil},
		{"no token", "GET", "/v2/lib/tool/manifests/v1", nil, 404, "NAME_UNKNOWN", nil},
		{"catalog", "GET", "/v2/_catalog", nil, 404, "NAME_UNKNOWN", nil},
		{"push of a blob", "POST", f.name + "/blobs/uploads/", nil, 405, "UNSUPPORTED", map[string]string{"Allow": "GET, HEAD"}},
		{"push of a manifest", "PUT", f.name + "/manifests/v1", nil, 405, "UNSUPPORTED", nil},
		{"deletion", "DELETE", f.name + "/manifests/" + f.manifest, nil, 405, "UNSUPPORTED", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := f.ask(tc.method, tc.path, tc.header...)
			if w.Code != tc.status || codeOf(w) != tc.code {
				t.Errorf("it is answered %d %q, want %d %q: %s", w.Code, codeOf(w), tc.status, tc.code, w.Body)
			}
			for key, want := range tc.want {
				got := w.Header().Get(key)
				if v := w.Header()[key]; len(v) > 0 { // spelled as sent
					got = v[0]
				}
				if got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

// codeOf returns the code of an error body, or "" without one.
func codeOf(w *httptest.ResponseRecorder) string {
	var body struct {
		Errors []struct{ Code, Message string }
	}
	if json.Unmarshal(w.Body.Bytes(), &body) != nil || len(body.Errors) != 1 || body.Errors[0].Message == "" {
		return ""
	}
	return body.Errors[0].Code
}

func TestTagListHasTagOfName(t *testing.T) {
	t.Parallel()
	f := newFront(t, 1000)
	for query, want := range map[string][]string{"": {"v1"}, "?n=1": {"v1"}, "?n=0": {}, "?last=a": {"v1"}, "?last=v1": {}} {
		var got struct {
			Name string
			Tags []string
		}
		if err := json.Unmarshal(f.ask(http.MethodGet, f.name+"/tags/list"+query).Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Tags); d != "" || got.Name != "wt/abcdef/lib/tool" {
			t.Errorf("%q: %s: %s", query, got.Name, d)
		}
	}
}

// TestPullsAreCharged checks that a GET of a manifest is charged as a pull, and that HEAD
// is free.
func TestPullsAreCharged(t *testing.T) {
	t.Parallel()
	f := newFront(t, 2) // which calls look, so that one pull is left
	for range 5 {
		if w := f.ask(http.MethodHead, f.name+"/manifests/"+f.manifest); w.Code != http.StatusOK {
			t.Errorf("HEAD is answered %d", w.Code)
		}
	}
	if w := f.ask(http.MethodGet, f.name+"/manifests/"+f.manifest); w.Code != http.StatusOK {
		t.Errorf("the last pull is answered %d: %s", w.Code, w.Body)
	}
	w := f.ask(http.MethodGet, f.name+"/manifests/"+f.manifest)
	if w.Code != http.StatusTooManyRequests || codeOf(w) != "TOOMANYREQUESTS" || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many is answered %d %v: %s", w.Code, w.Header(), w.Body)
	}
	if w := f.ask(http.MethodGet, f.name+"/blobs/"+f.layer); w.Code != http.StatusOK {
		t.Errorf("a layer of a pull that was charged is answered %d", w.Code)
	}
	if w := f.ask(http.MethodGet, "/v2/wt/guess/lib/tool/manifests/v1"); w.Code != http.StatusTooManyRequests {
		t.Errorf("guessing a token is answered %d", w.Code)
	}
}

// TestUpstreamFaults checks that faults of the upstream registry become statuses that engines
// retry if the fault is temporary, and others that they do not retry.
func TestUpstreamFaults(t *testing.T) {
	t.Parallel()
	for upstream, want := range map[int]struct {
		status int
		code   string
	}{
		http.StatusUnauthorized:        {http.StatusUnauthorized, "UNAUTHORIZED"},
		http.StatusForbidden:           {http.StatusForbidden, "DENIED"},
		http.StatusNotFound:            {http.StatusNotFound, "BLOB_UNKNOWN"},
		http.StatusTooManyRequests:     {http.StatusTooManyRequests, "TOOMANYREQUESTS"},
		http.StatusInternalServerError: {http.StatusServiceUnavailable, "UNAVAILABLE"},
	} {
		t.Run(http.StatusText(upstream), func(t *testing.T) {
			t.Parallel()
			f := newFront(t, 1000)
			f.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(upstream)
				return true
			})
			if w := f.ask(http.MethodGet, f.name+"/blobs/"+f.layer); w.Code != want.status || codeOf(w) != want.code {
				t.Errorf("it is answered %d %q, want %d %q: %s", w.Code, codeOf(w), want.status, want.code, w.Body)
			}
		})
	}
}

// TestRealClientPulls pulls the image with a client library and verifies every digest.
func TestRealClientPulls(t *testing.T) {
	t.Parallel()
	f := newFront(t, 1000)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	ref, err := name.ParseReference(host+"/wt/abcdef/lib/tool:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index does not hold together: %v", err)
	}
	for arch, want := range map[string]bool{"amd64": true, "arm64": false} {
		img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(config.Config.Env, " "), "GREETING=hello"); got != want {
			t.Errorf("%s has the variables %q", arch, config.Config.Env)
		}
	}
	if tags, err := remote.List(ref.Context()); err != nil || len(tags) != 1 || tags[0] != "v1" {
		t.Errorf("its tags are %q, %v", tags, err)
	}
}
