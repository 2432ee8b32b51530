package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
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

// plans is a container service that returns plans by token, with the digests that were
// recorded for them.
type plans struct {
	containerv1.ContainerServiceClient
	mu    sync.Mutex
	known map[string]*containerv1.Plan
}

// ListAttestations returns none, like a service without a key.
func (*plans) ListAttestations(context.Context, *containerv1.ListAttestationsRequest, ...grpc.CallOption) (*containerv1.ListAttestationsResponse, error) {
	return &containerv1.ListAttestationsResponse{}, nil
}

func (p *plans) ResolveToken(_ context.Context, req *containerv1.ResolveTokenRequest, _ ...grpc.CallOption) (*containerv1.ResolveTokenResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	plan := p.known[req.GetToken()]
	switch {
	case plan == nil:
		return nil, fault.NotFound.Newf("No such token")
	case plan.GetName() == "broken":
		return nil, errors.New("the database is gone")
	case plan.GetName() == "away":
		return nil, fault.Unavailable.Newf("Try again").After(time.Second)
	}
	return &containerv1.ResolveTokenResponse{Plan: plan}, nil
}

func (p *plans) RecordDigest(_ context.Context, req *containerv1.RecordDigestRequest, _ ...grpc.CallOption) (*containerv1.RecordDigestResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	plan := p.known[req.GetToken()]
	plan.Digests = append(plan.GetDigests(), req.GetDigest())
	return &containerv1.RecordDigestResponse{}, nil
}

// served is a registry on loopback, in front of an upstream that has the image lib/tool:v1.
type served struct {
	t     *testing.T
	url   string
	plans *plans
	up    *testkit.Registry
	names int
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, plans: &plans{known: map[string]*containerv1.Plan{}}, up: testkit.NewRegistry(t, testkit.Open)}
	s.up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	egress, err := upstream.NewEgress([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	metrics := prometheus.NewRegistry()
	to := upstream.Options{Egress: egress, Plain: []string{s.up.Host}, Metrics: metrics}
	client := upstream.New(to)
	r, err := registry.New(registry.Deps{
		Containers: s.plans, Bus: testkit.NATS(t), Upstream: client, Reads: pullthrough.Direct(client), Control: upstream.NewControl(to),
		Blobs: openBlobs(t, blob.Config{}), Keychain: caller.NewKeychain(nil, nil), Limiter: ratelimit.New(testkit.Redis(t), metrics, testkit.Log(t)),
		Metrics: metrics, Log: testkit.Log(t), Now: time.Now,
		Settings: registry.Settings{LayerDir: t.TempDir(), LayerCache: 1 << 20, ImageCache: 1 << 20, PublicURL: "http://slipway.test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := rpc.Call{RequestID: "r-1", ClientIP: netip.MustParseAddr("127.0.0.1")}
		r.ServeHTTP(w, req.WithContext(rpc.WithCall(req.Context(), call)))
	}))
	t.Cleanup(func() {
		web.Close()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	s.url = web.URL
	return s
}

// name creates a new name of lib/tool:v1 with a change of its plan, or unchanged for nil. It
// returns the base URL of the name.
func (s *served) name(augmentation func(*containerv1.Plan)) string {
	s.names++
	plan := &containerv1.Plan{
		Token: fmt.Sprintf("token%d", s.names), Name: "lib/tool", Reference: "v1",
		Source:     &containerv1.Source{Registry: s.up.Host, Repository: "lib/tool", Reference: "v1"},
		Expiration: timestamppb.New(time.Now().Add(time.Hour)),
	}
	if augmentation != nil {
		augmentation(plan)
	}
	s.plans.mu.Lock()
	defer s.plans.mu.Unlock()
	s.plans.known[plan.GetToken()] = plan
	return s.url + "/v2/wt/" + plan.GetToken() + "/" + plan.GetName()
}

// reply is a response with its whole body.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (s *served) ask(method, url string, header ...string) reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, body}
}

// kinds returns the image names that the specification's cases run for. A built image has
// no recorded digest, since its tag has not been requested yet.
func kinds() map[string]func(*containerv1.Plan) {
	return map[string]func(*containerv1.Plan){
		"unchanged": nil,
		"augmented": func(p *containerv1.Plan) { p.Config = &containerv1.ContainerConfig{Env: []string{"A=b"}} },
		"built":     func(p *containerv1.Plan) { p.BuildId, p.Built = "0123456789abcdef_1", true },
	}
}

const absent = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// TestConformance runs the pull and discovery cases of the OCI distribution specification's
// conformance suite, v1.1.1.
func TestConformance(t *testing.T) {
	t.Parallel()
	for kind, augmentation := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			conform(t, s, s.name(augmentation))
		})
	}
}

func conform(t *testing.T, s *served, base string) {
	manifest := s.ask(http.MethodGet, base+"/manifests/v1")
	d := digest.FromBytes(manifest.body).String()
	config, layer := parts(t, manifest.body)
	for _, c := range []struct {
		name, method, path string
		status             int
		check              func(*testing.T, reply)
	}{
		// Pull
		{"HEAD request to nonexistent blob", "HEAD", "/blobs/" + absent, 404, nil},
		{"HEAD request to existing blob", "HEAD", "/blobs/" + config, 200, hasDigest(config)},
		{"GET nonexistent blob", "GET", "/blobs/" + absent, 404, hasCode("BLOB_UNKNOWN")},
		{"GET request to existing blob URL", "GET", "/blobs/" + config, 200, isContent(config)},
		{"HEAD request to existing layer", "HEAD", "/blobs/" + layer, 200, hasDigest(layer)},
		{"GET request to existing layer", "GET", "/blobs/" + layer, 200, isContent(layer)},
		{"HEAD request to nonexistent manifest", "HEAD", "/manifests/.INVALID_MANIFEST_NAME", 404, nil},
		{"HEAD request to manifest path (digest)", "HEAD", "/manifests/" + d, 200, hasDigest(d)},
		{"HEAD request to manifest path (tag)", "HEAD", "/manifests/v1", 200, hasDigest(d)},
		{"GET nonexistent manifest", "GET", "/manifests/.INVALID_MANIFEST_NAME", 404, hasCode("MANIFEST_UNKNOWN")},
		{"GET request to manifest path (digest)", "GET", "/manifests/" + d, 200, isContent(d)},
		{"GET request to manifest path (tag)", "GET", "/manifests/v1", 200, isContent(d)},
		{"HEAD another tag", "HEAD", "/manifests/nothere", 404, nil},
		{"GET another tag", "GET", "/manifests/nothere", 404, hasCode("MANIFEST_UNKNOWN")},
		{"GET another digest", "GET", "/manifests/" + absent, 404, hasCode("MANIFEST_UNKNOWN")},
		{"GET a digest of SHA-512", "GET", "/manifests/" + digest.SHA512.FromString("x").String(), 404, hasCode("MANIFEST_UNKNOWN")},
		{"GET a blob by SHA-512", "GET", "/blobs/" + digest.SHA512.FromString("x").String(), 404, hasCode("BLOB_UNKNOWN")},
		{"GET a manifest by a malformed digest", "GET", "/manifests/sha256:totallywrong", 400, hasCode("DIGEST_INVALID")},
		{"GET a manifest by an unknown algorithm", "GET", "/manifests/md5:d41d8cd98f00b204e9800998ecf8427e", 400, hasCode("DIGEST_INVALID")},
		{"GET a blob by a malformed digest", "GET", "/blobs/sha256:totallywrong", 400, hasCode("DIGEST_INVALID")},
		{"GET a manifest by a very long tag", "GET", "/manifests/" + strings.Repeat("a", 129), 404, hasCode("MANIFEST_UNKNOWN")},
		// Content discovery
		{"GET tags", "GET", "/tags/list", 200, hasTags("v1")},
		{"GET number of tags limitable by n", "GET", "/tags/list?n=1", 200, hasTags("v1")},
		{"GET no tags", "GET", "/tags/list?n=0", 200, hasTags()},
		{"GET start of tag is set by last", "GET", "/tags/list?n=1&last=v1", 200, hasTags()},
		{"GET referrers", "GET", "/referrers/" + d, 200, isEmptyIndex},
		{"GET referrers of nonexistent manifest", "GET", "/referrers/" + absent, 200, isEmptyIndex},
		{"GET referrers with filter", "GET", "/referrers/" + d + "?artifactType=a/b", 200, isFiltered},
		{"GET referrers of a malformed digest", "GET", "/referrers/sha256:wrong", 400, hasCode("DIGEST_INVALID")},
		// Unsupported requests
		{"PUT a manifest", "PUT", "/manifests/v1", 405, isReadOnly},
		{"POST an upload", "POST", "/blobs/uploads/", 405, isReadOnly},
		{"DELETE a blob", "DELETE", "/blobs/" + config, 405, isReadOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.ask(c.method, base+c.path)
			if got.status != c.status {
				t.Fatalf("status %d, want %d: %s", got.status, c.status, got.body)
			}
			if c.method == http.MethodHead && len(got.body) > 0 {
				t.Errorf("HEAD has the body %s", got.body)
			}
			if c.check != nil {
				c.check(t, got)
			}
		})
	}
}

// TestFirstByDigest requests a digest from a new name before its tag was ever requested.
func TestFirstByDigest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for kind, augmentation := range kinds() {
		manifest := s.ask(http.MethodGet, s.name(augmentation)+"/manifests/v1")
		d := digest.FromBytes(manifest.body).String()
		config, layer := parts(t, manifest.body)
		for _, path := range []string{"/manifests/" + d, "/blobs/" + config, "/blobs/" + layer} {
			if got := s.ask(http.MethodGet, s.name(augmentation)+path); got.status != http.StatusOK {
				t.Errorf("%s: %s is answered %d %s", kind, path, got.status, got.body)
			}
		}
	}
}

// TestRanges compares ranges served from here and ranges served by upstream with RFC 9110.
func TestRanges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	base := s.name(kinds()["augmented"])
	config, layer := parts(t, s.ask(http.MethodGet, base+"/manifests/v1").body)
	for _, d := range []string{config, layer} {
		whole := s.ask(http.MethodGet, base+"/blobs/"+d)
		n := len(whole.body)
		for _, c := range []struct {
			name, rng, ifRange string
			status             int
			want               []byte
		}{
			{"the start", "bytes=0-3", "", 206, whole.body[:4]},
			{"the rest", fmt.Sprintf("bytes=%d-", n-2), "", 206, whole.body[n-2:]},
			{"the end", "bytes=-3", "", 206, whole.body[n-3:]},
			{"nothing at the end", "bytes=-0", "", 416, nil},
			{"behind the end", "bytes=99999999-", "", 416, nil},
			{"backwards", "bytes=5-2", "", 200, whole.body},
			{"another unit", "lines=1-2", "", 200, whole.body},
			{"If-Range with the Etag", "bytes=0-3", whole.header.Get("Etag"), 206, whole.body[:4]},
			{"If-Range with another Etag", "bytes=0-3", `"another"`, 200, whole.body},
			{"If-Range with a weak Etag", "bytes=0-3", "W/" + whole.header.Get("Etag"), 200, whole.body},
			{"If-Range with a date", "bytes=0-3", "Mon, 02 Jan 2006 15:04:05 GMT", 200, whole.body},
			{"several that overlap", "bytes=0-3,2-5", "", 200, whole.body},
			{"several that descend", "bytes=4-5,0-1", "", 200, whole.body},
			{"several, one of them behind the end", "bytes=0-3,99999999-", "", 206, whole.body[:4]},
			{"several behind the end", "bytes=99999998-99999998,99999999-", "", 416, nil},
			{"several, If-Range with another Etag", "bytes=0-1,3-4", `"another"`, 200, whole.body},
			{"no bytes, If-Range with another Etag", "bytes=-0", `"another"`, 200, whole.body},
		} {
			header := []string{"Range", c.rng}
			if c.ifRange != "" {
				header = append(header, "If-Range", c.ifRange)
			}
			got := s.ask(http.MethodGet, base+"/blobs/"+d, header...)
			if got.status != c.status || c.want != nil && !bytes.Equal(got.body, c.want) {
				t.Errorf("%s, %s: %d with %d bytes, want %d with %d", d[:15], c.name, got.status, len(got.body), c.status, len(c.want))
			}
			if want := fmt.Sprintf("bytes */%d", n); c.status == http.StatusRequestedRangeNotSatisfiable && got.header.Get("Content-Range") != want {
				t.Errorf("%s, %s: Content-Range %q, want %q", d[:15], c.name, got.header.Get("Content-Range"), want)
			}
		}
		several := s.ask(http.MethodGet, base+"/blobs/"+d, "Range", "bytes=0-1, 3-4,-2")
		var all []byte
		if _, params, err := mime.ParseMediaType(several.header.Get("Content-Type")); err == nil && several.status == http.StatusPartialContent {
			for in := multipart.NewReader(bytes.NewReader(several.body), params["boundary"]); ; {
				p, err := in.NextPart()
				if err != nil {
					break
				}
				content, err := io.ReadAll(p)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, content...)
			}
		}
		if want := slices.Concat(whole.body[:2], whole.body[3:5], whole.body[n-2:]); !bytes.Equal(all, want) {
			t.Errorf("%s, several: %d %v with %q, want %q", d[:15], several.status, several.header, all, want)
		}
		head := s.ask(http.MethodHead, base+"/blobs/"+d, "Range", "bytes=0-1,3-4")
		if head.status != http.StatusOK || head.header.Get("Content-Length") != strconv.Itoa(n) {
			t.Errorf("%s, several of HEAD: %d %v", d[:15], head.status, head.header)
		}
	}
}

// TestErrorsCarryACode checks that each error has a code, as the specification requires,
// whether the client or the server is at fault.
func TestErrorsCarryACode(t *testing.T) {
	t.Parallel()
	s := serve(t)
	named := func(name string) string { return s.name(func(p *containerv1.Plan) { p.Name = name }) + "/manifests/v1" }
	for _, c := range []struct {
		url    string
		status int
		code   string
	}{
		{s.url + "/v2/wt/unknown/x/manifests/v1", 404, "NAME_UNKNOWN"},
		{s.url + "/v2/_catalog", 404, "NAME_UNKNOWN"},
		{named("broken"), 500, "UNKNOWN"},
		{named("away"), 503, "UNAVAILABLE"},
		{s.url + "/v2/wt/%ff/x/manifests/v1", 404, "NAME_UNKNOWN"},
		{s.url + "/v2/wt/t/%00/manifests/v1", 404, "NAME_UNKNOWN"},
		{s.url + "/v2/wt/t/x/manifests/%ff", 404, "NAME_UNKNOWN"},
	} {
		got := s.ask(http.MethodGet, c.url)
		if got.status != c.status {
			t.Errorf("%s: status %d, want %d", c.url, got.status, c.status)
		}
		hasCode(c.code)(t, got)
	}
}

// parts returns the digests of a manifest's config and of its first layer.
func parts(t *testing.T, manifest []byte) (config, layer string) {
	t.Helper()
	var m struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	if err := json.Unmarshal(manifest, &m); err != nil || len(m.Layers) == 0 {
		t.Fatalf("no manifest: %s, %v", manifest, err)
	}
	return m.Config.Digest, m.Layers[0].Digest
}

func hasCode(code string) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		var e struct {
			Errors []struct{ Code, Message string }
		}
		if err := json.Unmarshal(r.body, &e); err != nil || len(e.Errors) != 1 || e.Errors[0].Code != code || e.Errors[0].Message == "" {
			t.Errorf("no error %s: %s", code, r.body)
		}
	}
}

func isReadOnly(t *testing.T, r reply) {
	t.Helper()
	hasCode("UNSUPPORTED")(t, r)
	if allow := r.header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow: %q", allow)
	}
}

func hasDigest(want string) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		if got := r.header.Get("Docker-Content-Digest"); got != want || r.header.Get("Content-Length") == "" {
			t.Errorf("digest %q, want %q; length %q", got, want, r.header.Get("Content-Length"))
		}
	}
}

func isContent(want string) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		hasDigest(want)(t, r)
		if digest.FromBytes(r.body).String() != want {
			t.Error("the content has another digest")
		}
	}
}

func hasTags(want ...string) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		var l struct {
			Name string
			Tags []string
		}
		if err := json.Unmarshal(r.body, &l); err != nil || l.Tags == nil || !slices.Equal(l.Tags, want) || !strings.HasPrefix(l.Name, "wt/") {
			t.Errorf("tags %s, want %v", r.body, want)
		}
	}
}

func isEmptyIndex(t *testing.T, r reply) {
	t.Helper()
	const index = "application/vnd.oci.image.index.v1+json"
	if want := `{"schemaVersion":2,"mediaType":"` + index + `","manifests":[]}`; string(r.body) != want || r.header.Get("Content-Type") != index {
		t.Errorf("got %s %s, want %s", r.header.Get("Content-Type"), r.body, want)
	}
}

func isFiltered(t *testing.T, r reply) {
	t.Helper()
	isEmptyIndex(t, r)
	if got := r.header.Get("OCI-Filters-Applied"); got != "artifactType" {
		t.Errorf("OCI-Filters-Applied: %q", got)
	}
}
