package registry_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry"
	"slipway.dev/services/registry/blob"
)

// keeping makes a registry keep what it reads in a cache.
func keeping(t *testing.T, blobs blob.Cache) func(*registry.Deps) {
	return func(d *registry.Deps) {
		d.Blobs = blobs
		d.Reads = pullthrough.New(pullthrough.Options{
			Client: d.Upstream, Store: blobs, Documents: upstream.NewDocuments(), Recheck: time.Hour,
			Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: time.Now,
		})
	}
}

// pullAll pulls the image with all blobs of its first manifest, starting at a reference, and
// returns the responses that say that they are stale.
func (f *front) pullAll(t *testing.T, ref string) (stale []string) {
	t.Helper()
	for _, path := range []string{"/manifests/" + ref, "/manifests/" + f.manifest, "/blobs/" + f.config, "/blobs/" + f.layer} {
		w := f.ask(http.MethodGet, f.name+path)
		code, body := w.Code, w.Body.Bytes()
		if code == http.StatusTemporaryRedirect {
			code, body = follow(t, w, "")
		}
		if code != http.StatusOK || w.Header().Get("Docker-Content-Digest") != digest.FromBytes(body).String() {
			t.Errorf("%s is answered %d: %s", path, w.Code, w.Body)
		}
		if w := w.Header().Get("Warning"); w != "" {
			stale = append(stale, path[:6]+" "+w)
		}
	}
	return stale
}

// TestKeptImage checks that the registry of an image is asked for nothing but the digest of its tag
// once the image was pulled, and that the image can be pulled while that registry is unavailable,
// also by a process that was restarted.
func TestKeptImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blobs := openBlobs(t, blob.Config{Dir: dir, Size: 1 << 20})
	f := newFrontWith(t, 1000, keeping(t, blobs))
	f.pullAll(t, "v1")
	f.up.Requests()
	f.pullAll(t, "v1")
	if got := f.up.Requests(); !slices.Equal(got, []string{"HEAD /v2/lib/tool/manifests/v1"}) {
		t.Errorf("the registry is asked %q", got)
	}
	again := newFrontOf(t, f.up, 1000, keeping(t, blobs)) // with nothing in memory
	again.index, again.manifest, again.config, again.layer, again.size = f.index, f.manifest, f.config, f.layer, f.size
	f.up.Requests()
	if w := again.ask(http.MethodHead, f.name+"/blobs/"+f.layer); w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD is answered %d", w.Code)
	}
	again.pullAll(t, f.index)
	if got := f.up.Requests(); !slices.Equal(got, []string{"HEAD /v2/lib/tool/manifests/v1"}) { // it has no record of the name's digest
		t.Errorf("after a restart the registry is asked %q", got)
	}
	f.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	for _, front := range []*front{f, again} {
		if got := front.pullAll(t, "v1"); !slices.Equal(got, []string{`/manif 110 - "response is stale"`}) {
			t.Errorf("while the registry limits requests, these are stale: %q", got)
		}
	}
}

// TestKeptImageInABucket is TestKeptImage for two processes that share a bucket.
func TestKeptImageInABucket(t *testing.T) {
	t.Parallel()
	s3 := testkit.StartS3(t)
	open := func() blob.Cache { return openBucketBlobs(t, s3) }
	one := newFrontWith(t, 1000, keeping(t, open()))
	one.pushLarge(t)
	testkit.Until(t, "the bucket has the image", func() error {
		one.pullAll(t, "v1")
		return hasObjects(s3.Objects(t), 5) // the tag, two manifests, the config and the layer
	})
	two := newFrontOf(t, one.up, 1000, keeping(t, open()))
	two.index, two.manifest, two.config, two.layer, two.size = one.index, one.manifest, one.config, one.layer, one.size
	one.up.Requests()
	two.pullAll(t, "v1")
	if got := one.up.Requests(); !slices.Equal(got, []string{"HEAD /v2/lib/tool/manifests/v1"}) {
		t.Errorf("the other process asks the registry %q", got)
	}
	one.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	three := newFrontOf(t, one.up, 1000, keeping(t, open()))
	three.index, three.manifest, three.config, three.layer, three.size = one.index, one.manifest, one.config, one.layer, one.size
	if got := three.pullAll(t, "v1"); len(got) != 1 {
		t.Errorf("while the registry is unavailable, these are stale: %q", got)
	}
	s3.Kill()
	one.up.Intercept(nil)
	one.pullAll(t, "v1")
}
