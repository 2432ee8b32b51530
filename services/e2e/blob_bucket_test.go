package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/testkit"
)

// TestBlobsInABucket pulls an image through a bucket. The first pull fills the bucket; later
// pulls are redirected to it. A client whose login has lost its permission must not be redirected.
// If the bucket fails during a pull, the pull must succeed.
func TestBlobsInABucket(t *testing.T) {
	t.Parallel()
	s3 := testkit.StartS3(t)
	up := testkit.NewRegistry(t, testkit.Basic)
	auth := dockerConfig(t, map[string]string{up.Host: testkit.User + ":" + testkit.Password})
	more := settings{"blob_cache": s3.Address(s3.URL), "blob_cache_credentials_file": s3.Credentials(t), "registry_auth_file": auth}
	p := oneProcess(t, common(t, []string{up.Host}, more))
	more64 := func(img v1.Image, size int64) v1.Image {
		t.Helper()
		layer, err := random.Layer(size, "application/vnd.oci.image.layer.v1.tar")
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			t.Fatal(err)
		}
		return img
	}
	image := up.Push(t, "lib/tool:1", more64(busybox(t, true), 8<<20))
	target := p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"cmd": []string{"/bin/busybox", "echo", "it runs"}}})

	layers := largeLayers(t, pull(t, target, "amd64"))
	if len(layers) == 0 {
		t.Fatal("no layer is large enough for the bucket")
	}
	for d := range layers { // uploads to the bucket run in the background
		testkit.Until(t, "the bucket", func() error { return p.sentOn(target, d) })
	}
	for object, size := range s3.Objects(t) {
		if !strings.HasPrefix(object, ".") && !strings.HasSuffix(object, fmt.Sprint("-", size)) {
			t.Errorf("%s has %d bytes", object, size)
		}
	}
	up.Requests()
	if skopeo, err := exec.LookPath("skopeo"); err == nil {
		dir := filepath.Join(t.TempDir(), "copy")
		if out, err := exec.Command(skopeo, "--insecure-policy", "copy", "--src-tls-verify=false", "docker://"+target, "oci:"+dir+":copy").CombinedOutput(); err != nil {
			t.Errorf("skopeo: %v\n%s", err, out)
		}
	} else {
		t.Error("skopeo is not installed")
	}
	for _, request := range up.Requests() {
		method, path, _ := strings.Cut(request, " ")
		for d := range layers {
			if strings.HasSuffix(path, d) && method != http.MethodHead {
				t.Errorf("the registry got %s", request)
			}
		}
	}
	if got := startDocker(t).docker(t, target); got != "it runs\n" {
		t.Errorf("the container printed %q", got)
	}
	p.bucketHits(t)
	for _, secret := range []string{testkit.S3Secret, "X-Amz-Signature"} {
		if strings.Contains(p.procs[0].log(), secret) {
			t.Errorf("the log contains %s", secret)
		}
	}

	up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	for d := range layers {
		if resp, _ := p.blob(t, target, d); resp.StatusCode != http.StatusForbidden || resp.Header.Get("Location") != "" {
			t.Errorf("a login without the right got %d", resp.StatusCode)
		}
	}
	up.Intercept(nil)

	// The bucket fails during the pull of a layer of another image.
	cold := p.submit(map[string]any{"containerImage": up.Push(t, "lib/other:1", more64(busybox(t, true), 40<<20))})
	for d, size := range largeLayers(t, unread(t, cold)) {
		resp, err := http.Get(v2(cold) + "/blobs/" + d)
		if err != nil {
			t.Fatal(err)
		}
		verify := digest.Digest(d).Verifier()
		if _, err := io.CopyN(verify, resp.Body, size/4); err != nil && size > 1<<20 {
			t.Fatal(err)
		}
		s3.Kill()
		if _, err := io.Copy(verify, resp.Body); err != nil || !verify.Verified() {
			t.Errorf("the pull during which the bucket failed has other content, %v", err)
		}
		_ = resp.Body.Close()
	}
	for d, size := range layers {
		if resp, n := p.blob(t, target, d); resp.StatusCode != http.StatusOK || n != size {
			t.Errorf("without the bucket the blob got %d, %d bytes", resp.StatusCode, n)
		}
	}
	if err := s3.Start(); err != nil {
		t.Fatal(err)
	}
	for object, size := range s3.Objects(t) {
		if !strings.HasPrefix(object, ".") && size > 0 && !strings.HasSuffix(object, fmt.Sprint("-", size)) {
			t.Errorf("%s has %d bytes", object, size)
		}
	}
	for d := range layers {
		testkit.Until(t, "the bucket that is back", func() error { return p.sentOn(target, d) })
	}
}

// unread returns an image without fetching its blobs.
func unread(t testing.TB, target string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(target, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// largeLayers returns the sizes of the layers that are large enough for a bucket.
func largeLayers(t testing.TB, img v1.Image) map[string]int64 {
	t.Helper()
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, l := range m.Layers {
		if l.Size >= 64<<10 {
			out[l.Digest.String()] = l.Size
		}
	}
	return out
}

// blob requests a blob without following redirects, and reads it.
func (p *program) blob(t testing.TB, target, d string) (*http.Response, int64) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(v2(target) + "/blobs/" + d)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, _ := io.Copy(io.Discard, resp.Body)
	return resp, n
}

// sentOn returns an error unless a client is redirected to a bucket that has the blob.
func (p *program) sentOn(target, d string) error {
	sent := false
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { sent = true; return nil }}
	resp, err := client.Get(v2(target) + "/blobs/" + d)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	verify := digest.Digest(d).Verifier()
	if _, err := io.Copy(verify, resp.Body); err != nil {
		return err
	}
	if !sent || !verify.Verified() {
		return fmt.Errorf("the blob got %d: redirected %v, verified %v", resp.StatusCode, sent, verify.Verified())
	}
	return nil
}

// bucketHits checks that the metrics have hits of the bucket, and no failures.
func (p *program) bucketHits(t testing.TB) {
	t.Helper()
	resp, err := http.Get(p.procs[0].admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	hits := ""
	for line := range strings.Lines(string(text)) {
		switch series, value, _ := strings.Cut(strings.TrimSpace(line), "} "); {
		case series == `slipway_registry_cache_total{cache="blob",result="hit"`:
			hits = value
		case strings.HasPrefix(line, "slipway_registry_blob_cache_failed_total ") && strings.TrimSpace(line) != "slipway_registry_blob_cache_failed_total 0":
			t.Error(strings.TrimSpace(line))
		}
	}
	if hits == "" || hits == "0" {
		t.Errorf("there are %q hits", hits)
	}
}
