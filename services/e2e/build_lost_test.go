package e2e

import (
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestPullOfALostImage empties the registry of built images. Pulling an issued name must build
// the image again, with the same digest.
func TestPullOfALostImage(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	images := testkit.NewRegistry(t, testkit.Basic)
	p := oneProcess(t, pushingTo(t, images, common(t, []string{up.Host}, bare(channel.URL))))
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	order := p.order(environment(base, "libcurl"))
	if s := p.finished(t, order); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(order))
	}
	name := text(order, "targetImage")
	before := p.call(http.MethodGet, strings.TrimPrefix(manifest(name), p.url), nil)
	if before.status != http.StatusOK {
		t.Fatalf("the first pull got %d %s", before.status, before.body)
	}
	for _, lost := range []string{"once", "a second time"} {
		images.Empty(t)
		if got := files(t, pull(t, name, "amd64")); got["opt/conda/lib/libz.so.1.2.13"] == "" {
			t.Errorf("after the loss of %s the image has no packages", lost)
		}
		after := p.call(http.MethodGet, strings.TrimPrefix(manifest(name), p.url), nil)
		if got, want := after.header.Get("Docker-Content-Digest"), before.header.Get("Docker-Content-Digest"); got != want {
			t.Errorf("after the loss of %s the digest is %s, want %s", lost, got, want)
		}
	}
	// A client that knows the digest starts with it.
	images.Empty(t)
	byDigest := strings.TrimPrefix(v2(name), p.url) + "/manifests/" + before.header.Get("Docker-Content-Digest")
	if r := p.call(http.MethodGet, byDigest, nil); r.status != http.StatusOK {
		t.Errorf("by digest: %d %s", r.status, r.body)
	}
	// If the image cannot be built again, the error says so.
	images.Empty(t)
	up.Empty(t)
	if r := p.call(http.MethodGet, strings.TrimPrefix(manifest(name), p.url), nil); r.status != http.StatusNotFound || !strings.Contains(string(r.body), "base/index") {
		t.Errorf("without the base image: %d %s", r.status, r.body)
	}
}
