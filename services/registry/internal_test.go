package registry

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit/bubble"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]*path{
		"/v2/wt/tok/lib/tool/manifests/v1":                   {"tok", "lib/tool", kindManifest, "v1"},
		"/v2/wt/tok/a/blobs/sha256:00":                       {"tok", "a", kindBlob, "sha256:00"},
		"/v2/wt/tok/a/manifests/b/manifests/blobs/tags/list": {"tok", "a/manifests/b/manifests/blobs", kindTags, ""},
		"/v2/wt/tok/x/referrers/sha256:00":                   {"tok", "x", kindReferrers, "sha256:00"},
		"/v2/wt/tok/tags/tags/list":                          {"tok", "tags", kindTags, ""},
		"/v2/wt/tok/tags/list":                               nil,
		"/v2/wt/tok/manifests/v1":                            nil,
		"/v2/wt/tok/x/tags/all":                              nil,
		"/v2/wt/tok/x/unknown/v1":                            nil,
		"/v2/wt//x/manifests/v1":                             nil,
		"/v2/wt/tok/x/manifests/":                            nil,
		"/v2/other/x/manifests/v1":                           nil,
		"/v2/wt/tok":                                         nil,
	} {
		got, ok := parsePath(in)
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%s: %+v, %v; want %+v", in, got, ok, want)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add("/v2/wt/tok/lib/tool/manifests/v1")
	f.Add("/v2/wt/t/a/b/tags/list")
	f.Add("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	f.Add("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649bg34ca495991b7852b855")
	f.Add("sha256:E3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	f.Add("sha256:00")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := parseDigest(in)
		if want, fails := digest.Parse(in); (err == nil) != (fails == nil) || err == nil && got != want {
			t.Errorf("%q is the digest %q, %v; want %q, %v", in, got, err, want, fails)
		}
		p, ok := parsePath(in)
		if !ok {
			return
		}
		back := "/v2/wt/" + p.token + "/" + p.name + "/" + map[string]string{
			kindManifest: "manifests/", kindBlob: "blobs/", kindReferrers: "referrers/", kindTags: "tags/list",
		}[p.kind] + p.ref
		if back != in {
			t.Errorf("%q was read as %+v", in, p)
		}
	})
}

// containers is a container service that only serves plans and layers.
type containers struct {
	containerv1.ContainerServiceClient
	asked   atomic.Int64
	revoked atomic.Bool
	layer   []byte
}

func (c *containers) ResolveToken(_ context.Context, req *containerv1.ResolveTokenRequest, _ ...grpc.CallOption) (*containerv1.ResolveTokenResponse, error) {
	c.asked.Add(1)
	if c.revoked.Load() {
		return nil, fault.NotFound.Newf("gone")
	}
	return &containerv1.ResolveTokenResponse{Plan: &containerv1.Plan{
		Token: req.GetToken(), Name: "x", Reference: "v1", Source: &containerv1.Source{Registry: "r", Repository: "x", Reference: "v1"},
		Expiration: timestamppb.New(time.Now().Add(time.Hour)),
	}}, nil
}

func (c *containers) GetLayer(context.Context, *containerv1.GetLayerRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[containerv1.GetLayerResponse], error) {
	c.asked.Add(1)
	return &layerStream{rest: c.layer}, nil
}

type layerStream struct {
	grpc.ServerStreamingClient[containerv1.GetLayerResponse]
	rest []byte
}

func (s *layerStream) Recv() (*containerv1.GetLayerResponse, error) {
	if len(s.rest) == 0 {
		return nil, io.EOF
	}
	n := min(len(s.rest), 3)
	out := s.rest[:n]
	s.rest = s.rest[n:]
	return &containerv1.GetLayerResponse{Chunk: out}, nil
}

// TestMissedRevocation runs a replica that never receives the revocation message.
func TestMissedRevocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &containers{}
		g := cachesOnly(c)
		defer g.forget()
		ask := func() error { _, err := g.get(t.Context(), "tok"); return err }
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		c.revoked.Store(true)
		if err := ask(); err != nil {
			t.Errorf("it should still be remembered: %v", err)
		}
		bubble.Elapse(61 * time.Second)
		if err := ask(); !errors.Is(err, fault.NotFound) {
			t.Errorf("after a minute it answers %v", err)
		}
		n := c.asked.Load()
		for range 10 {
			_ = ask()
		}
		if c.asked.Load() != n {
			t.Error("an unknown token is asked about again at once")
		}
		bubble.Elapse(6 * time.Second)
		if _ = ask(); c.asked.Load() != n+1 {
			t.Error("an unknown token is never asked about again")
		}
	})
}

func TestRevocationAppliesToResponseInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &containers{}
		g := cachesOnly(c)
		defer g.forget()
		g.revoke(keyOf("tok")) // the message arrives before the response that was read earlier
		if _, err := g.get(t.Context(), "tok"); !errors.Is(err, fault.NotFound) {
			t.Errorf("a revoked token answers %v", err)
		}
		if err := g.refresh(t.Context(), &resolvedToken{token: "tok"}); !errors.Is(err, fault.NotFound) {
			t.Errorf("a revoked token is renewed: %v", err)
		}
	})
}

func TestExpiredGrantIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := cachesOnly(&containers{})
		defer g.forget()
		g.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
		if _, err := g.get(t.Context(), "tok"); err != nil {
			t.Fatal(err) // the first response comes from the container service
		}
		if _, err := g.get(t.Context(), "tok"); !errors.Is(err, fault.NotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestLayerCache(t *testing.T) {
	t.Parallel()
	content := []byte("0123456789")
	c := &containers{layer: content}
	dir := t.TempDir()
	cache, err := newLayerCache(c, dir, 25)
	if err != nil {
		t.Fatal(err)
	}
	d := digest.FromBytes(content)
	for range 2 {
		f, err := cache.open(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || string(got) != string(content) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if n := c.asked.Load(); n != 1 {
		t.Errorf("the layer was fetched %d times", n)
	}
	if _, err := cache.open(t.Context(), digest.FromString("other")); err == nil {
		t.Error("content with another digest was accepted")
	}
	if diff := cmp.Diff([]string{d.Encoded()}, names(t, dir)); diff != "" {
		t.Errorf("something half-stored is left (-want +got):\n%s", diff)
	}
	for i, text := range []string{"aaaaaaaaaa", "bbbbbbbbbb"} {
		if err := os.Chtimes(filepath.Join(dir, d.Encoded()), time.Unix(int64(i), 0), time.Unix(int64(i), 0)); err != nil && i == 0 {
			t.Fatal(err)
		}
		c.layer = []byte(text)
		f, err := cache.open(t.Context(), digest.FromString(text))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	if left := strings.Join(names(t, dir), " "); strings.Contains(left, d.Encoded()) {
		t.Error("the layer that was not asked for the longest is still there")
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
