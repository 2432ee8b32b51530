package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"slipway.dev/services/internal/testkit"
)

// direct is a server whose names are those of the requested images themselves.
func direct(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1alpha2/containers" {
		_, _ = io.WriteString(w, `{}`)
		return
	}
	var body struct {
		Requests []struct {
			ContainerImage string
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for i, one := range body.Requests {
		fmt.Fprintf(w, `{"index":%d,"response":{"requestId":"r%d","containerToken":"t%d","targetImage":"%s","containerImage":"%s","succeeded":true}}`+"\n", i, i, i, one.ContainerImage, one.ContainerImage)
	}
}

// sharing returns an image with an own layer above layers of another.
func sharing(t *testing.T, base v1.Image) v1.Image {
	t.Helper()
	layer, err := random.Layer(2000, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digestOf(t *testing.T, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	d, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// signatureOf returns an image that refers to another.
func signatureOf(t *testing.T, of v1.ImageIndex) v1.Image {
	t.Helper()
	image, err := random.Image(500, 1)
	if err != nil {
		t.Fatal(err)
	}
	size, err := of.Size()
	if err != nil {
		t.Fatal(err)
	}
	d, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), "application/vnd.test.signature")
	signed, ok := mutate.Subject(image, v1.Descriptor{MediaType: types.OCIImageIndex, Digest: d, Size: size}).(v1.Image)
	if !ok {
		t.Fatal("the signature is no image")
	}
	return signed
}

// A bundled is a folder with a bundle of three images, of which two share layers.
type bundled struct {
	up        *testkit.Registry
	url       string
	folder    string
	names     []string
	index     v1.ImageIndex
	signature string
	// signatureSize is the size of its manifest.
	signatureSize int64
}

func newBundled(t *testing.T) *bundled {
	t.Helper()
	b := &bundled{up: testkit.NewRegistry(t, testkit.Open), url: serve(t, direct), folder: filepath.Join(t.TempDir(), "bundle"), index: testkit.Index(t, true, "amd64", "arm64")}
	base := testkit.Image(t, "amd64", true)
	b.names = []string{b.up.Push(t, "lab/one:1", sharing(t, base)), b.up.Push(t, "lab/two:2", sharing(t, base)), b.up.Push(t, "lab/both:v1", b.index)}
	s := signatureOf(t, b.index)
	b.signature = digestOf(t, s)
	size, err := s.Size()
	must(t, err)
	b.signatureSize = size
	b.up.Push(t, "lab/both@"+b.signature, s)
	return b
}

// inspected returns the output of `nextflow inspect` for the images.
func (b *bundled) inspected() string {
	var list []string
	for i, image := range b.names {
		list = append(list, fmt.Sprintf(`{"name":"MAIN:STEP_%d","container":"%s"}`, i, image))
	}
	return `{"processes":[` + strings.Join(list, ",") + `]}`
}

func (b *bundled) bundle(t *testing.T, in string, args ...string) outcome {
	t.Helper()
	return slipwayWith(t.Context(), in, nil, append([]string{"bundle", "--server", b.url, "--lock", "", "--to", b.folder}, args...)...)
}

// served serves a bundle until the test ends, and returns its address.
func served(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	config := filepath.Join(t.TempDir(), "offline.config")
	done := make(chan outcome, 1)
	go func() {
		done <- slipway(ctx, nil, append([]string{"bundle", "serve", "--listen", "127.0.0.1:0", "--nextflow-config", config}, args...)...)
	}()
	t.Cleanup(func() {
		stop()
		if got := <-done; got.code != 0 {
			t.Errorf("serve ended with %+v", got)
		}
	})
	host := ""
	testkit.Until(t, "the bundle is served", func() error {
		select {
		case got := <-done:
			done <- got
			t.Fatalf("serve ended with %+v", got)
		default:
		}
		raw, err := os.ReadFile(config)
		if err != nil {
			return err
		}
		_, after, ok := strings.Cut(string(raw), "container = '")
		if !ok {
			return errors.New("the configuration is incomplete")
		}
		host, _, _ = strings.Cut(after, "/")
		return nil
	})
	return host
}

func pulledIndex(t *testing.T, image string) v1.ImageIndex {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("%s: %v", image, err)
	}
	return index
}

func pulledDigest(t *testing.T, image string) string {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	d, err := remote.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	return d.Digest.String()
}

// TestBundle bundles images, serves them without their registry, and pushes them to another.
func TestBundle(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	got := b.bundle(t, b.inspected(), "-")
	if got.code != 0 || strings.Count(got.out, "ready") != 3 || !strings.Contains(got.out, b.names[2]) || !strings.Contains(got.errs, "3 of 3 images") {
		t.Fatalf("got %+v", got)
	}
	if entries, err := os.ReadDir(b.folder); err != nil || len(entries) != 3 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	got = slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify")
	if got.code != 0 || !strings.Contains(got.out, "linux/amd64,linux/arm64") || !strings.Contains(got.out, "MAIN:STEP_2") || !strings.Contains(got.errs, "Verified 6 manifests") {
		t.Errorf("list: %+v", got)
	}
	b.up.Empty(t)
	host := served(t, b.folder)
	for _, image := range []string{host + "/lab/both:v1", host + "/" + strings.ReplaceAll(b.up.Host, ":", "_") + "/lab/both:v1", host + "/wt/0123456789ab/lab/both:v1"} {
		if got := digestOf(t, pulledIndex(t, image)); got != digestOf(t, b.index) {
			t.Errorf("%s has the digest %s", image, got)
		}
	}
	ref, err := name.NewDigest(host+"/lab/both@"+digestOf(t, b.index), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(ref)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := referrers.IndexManifest(); err != nil || len(list.Manifests) != 1 || list.Manifests[0].Digest.String() != b.signature || list.Manifests[0].ArtifactType != "application/vnd.test.signature" {
		t.Errorf("the referrers are %v, %v", list, err)
	}
	to := testkit.NewRegistry(t, testkit.Open)
	config := filepath.Join(t.TempDir(), "mirror.config")
	got = slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host+"/mirror", "--nextflow-config", config)
	if got.code != 0 || got.out != strings.Join([]string{to.Host + "/mirror/lab/both:v1", to.Host + "/mirror/lab/one:1", to.Host + "/mirror/lab/two:2", ""}, "\n") {
		t.Errorf("load: %+v", got)
	}
	if got := digestOf(t, pulledIndex(t, to.Host+"/mirror/lab/both:v1")); got != digestOf(t, b.index) {
		t.Errorf("the copy has the digest %s", got)
	}
	if got := pulledDigest(t, to.Host+"/mirror/lab/both@"+b.signature); got != b.signature {
		t.Errorf("the copy of the signature is %s", got)
	}
	if raw, err := os.ReadFile(config); err != nil || !strings.Contains(string(raw), "    withName: 'MAIN:STEP_2' { container = '"+to.Host+"/mirror/lab/both:v1' }\n") {
		t.Errorf("the configuration is %s, %v", raw, err)
	}
	if sent := uploads(to.Requests()); sent == 0 {
		t.Error("nothing was sent")
	}
	if got := slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host+"/mirror"); got.code != 0 || uploads(to.Requests()) != 0 {
		t.Errorf("the second load: %+v", got)
	}
}

// TestBundleLogin pushes a bundle to a registry that requires the login of docker.
func TestBundleLogin(t *testing.T) { //nolint:paralleltest // it sets a variable
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	to, docker := testkit.NewRegistry(t, testkit.Basic), t.TempDir()
	t.Setenv("DOCKER_CONFIG", docker)
	if got := slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host); got.code != 1 || got.out != "" || !strings.Contains(got.errs, "pushing "+to.Host+"/lab/one:1: ") {
		t.Errorf("without a login: %+v", got)
	}
	login := base64.StdEncoding.EncodeToString([]byte(testkit.User + ":" + testkit.Password))
	must(t, os.WriteFile(filepath.Join(docker, "config.json"), []byte(`{"auths":{"`+to.Host+`":{"auth":"`+login+`"}}}`), 0o600))
	if got := slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host); got.code != 0 || strings.Count(got.out, "\n") != 3 {
		t.Errorf("with a login: %+v", got)
	}
}

// uploads counts the uploads of blobs.
func uploads(requests []string) (n int) {
	for _, r := range requests {
		if strings.HasPrefix(r, "POST ") {
			n++
		}
	}
	return n
}

func blobGets(requests []string) (out []string) {
	for _, r := range requests {
		if strings.HasPrefix(r, "GET ") && strings.Contains(r, "/blobs/") {
			out = append(out, filepath.Base(r))
		}
	}
	return out
}

// TestBundleContinues checks that each blob is fetched once, also by several runs of which some
// fail, and that --have leaves out what an earlier bundle has.
func TestBundleContinues(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	b.up.Requests()
	var seen atomic.Int32
	b.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		if seen.Add(1) < 4 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	got := b.bundle(t, b.inspected(), "-")
	if got.code != 1 || !strings.Contains(got.errs, "images are not in the bundle; the same command continues") {
		t.Errorf("got %+v", got)
	}
	b.up.Intercept(nil)
	b.up.Requests()
	first, err := os.ReadDir(filepath.Join(b.folder, "blobs", "sha256"))
	if err != nil || len(first) == 0 {
		t.Fatalf("the first run stored no blob: %v", err)
	}
	stored := map[string]bool{}
	for _, file := range first {
		stored["sha256:"+file.Name()] = true
	}
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("the second run: %+v", got)
	}
	for _, blob := range blobGets(b.up.Requests()) {
		if stored[blob] {
			t.Errorf("%s was fetched again", blob)
		}
	}
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 || len(blobGets(b.up.Requests())) != 0 {
		t.Errorf("the third run: %+v", got)
	}
	earlier := b.folder
	b.names = append(b.names, b.up.Push(t, "lab/three:3", sharing(t, testkit.Image(t, "amd64", true))))
	b.up.Requests()
	lists := filepath.Join(t.TempDir(), "have.json")
	if got := slipway(t.Context(), nil, "bundle", "list", earlier, "-o", "json"); got.code != 0 || os.WriteFile(lists, []byte(got.out), 0o600) != nil {
		t.Fatalf("list: %+v", got)
	}
	for _, have := range []string{earlier, lists} {
		b.folder = filepath.Join(t.TempDir(), "update")
		if got := b.bundle(t, b.inspected(), "-", "--have", have); got.code != 0 || !strings.Contains(got.errs, "left out") {
			t.Fatalf("--have: %+v", got)
		}
		if got := blobGets(b.up.Requests()); len(got) != 4 {
			t.Errorf("fetched %q", got)
		}
		if got := slipway(t.Context(), nil, "bundle", "serve", b.folder, "--listen", "127.0.0.1:0"); got.code != 1 || !strings.Contains(got.errs, "blobs were left out with --have") {
			t.Errorf("serve: %+v", got)
		}
		if got := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify"); got.code != 0 || !strings.Contains(got.errs, "were left out") {
			t.Errorf("list: %+v", got)
		}
		if got := slipway(t.Context(), nil, "bundle", "list", earlier, b.folder, "--verify"); got.code != 0 || strings.Contains(got.errs, "left out") {
			t.Errorf("list of both: %+v", got)
		}
		host := served(t, earlier, b.folder)
		for _, image := range b.names {
			pulledDigest(t, strings.Replace(image, b.up.Host, host, 1))
		}
	}
}

// TestBundleReferrersInACircle checks that a registry cannot keep the command busy with manifests that
// refer to each other.
func TestBundleReferrersInACircle(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	list := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[
		{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"%s","size":1},{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"%s","size":%d}]}`,
		digestOf(t, b.index), b.signature, b.signatureSize)
	b.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/lab/both/referrers/") {
			return false
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		_, _ = io.WriteString(w, list)
		return true
	})
	b.up.Requests()
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Errorf("got %+v", got)
	}
	if n := len(b.up.Requests()); n > 50 {
		t.Errorf("it made %d requests", n)
	}
	if got := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify"); got.code != 0 {
		t.Errorf("list: %+v", got)
	}
}

// TestBundleDamaged checks that a changed, truncated or missing blob is found, and that only
// regular files are read.
func TestBundleDamaged(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	images, err := pulledIndex(t, b.names[2]).IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := b.index.Image(images.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer, child := digestOf(t, layers[0]), images.Manifests[0].Digest.String()
	path := func(digest string) string {
		return filepath.Join(b.folder, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
	}
	secret := filepath.Join(t.TempDir(), "secret")
	for name, tc := range map[string]struct {
		digest string
		change func(path string, raw []byte) error
		want   string
	}{
		"a changed layer":    {layer, func(p string, raw []byte) error { raw[5] ^= 1; return os.WriteFile(p, raw, 0o600) }, layer + " was changed"},
		"a truncated layer":  {layer, func(p string, raw []byte) error { return os.WriteFile(p, raw[:9], 0o600) }, layer + " of " + b.folder + " has 9 bytes instead of"},
		"a missing layer":    {layer, func(string, []byte) error { return nil }, layer + " of " + b.folder + ": it is missing"},
		"a changed manifest": {child, func(p string, raw []byte) error { raw[5] ^= 1; return os.WriteFile(p, raw, 0o600) }, child + " of " + b.folder + " was changed"},
		"a missing manifest": {child, func(string, []byte) error { return nil }, child + " of " + b.folder + ": it is missing"},
		"a link": {layer, func(p string, raw []byte) error {
			return errors.Join(os.WriteFile(secret, raw, 0o600), os.Symlink(secret, p))
		}, layer + " of " + b.folder + ": it is not a regular file"},
		"a folder": {layer, func(p string, _ []byte) error { return os.Mkdir(p, 0o700) }, "it is not a regular file"},
	} {
		raw, err := os.ReadFile(path(tc.digest))
		must(t, err)
		must(t, os.Remove(path(tc.digest)))
		must(t, tc.change(path(tc.digest), slices.Clone(raw)))
		if got := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify"); got.code != 1 || !strings.Contains(got.errs, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
		must(t, os.RemoveAll(path(tc.digest)))
		must(t, os.WriteFile(path(tc.digest), raw, 0o600))
	}
	if got := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify"); got.code != 0 {
		t.Errorf("restored: %+v", got)
	}
	blobs := filepath.Join(b.folder, "blobs")
	must(t, os.Rename(blobs, blobs+"2"))
	must(t, os.Symlink("blobs2", blobs))
	if got := slipway(t.Context(), nil, "bundle", "list", b.folder); got.code != 1 || !strings.Contains(got.errs, "blobs is not a folder") {
		t.Errorf("a link instead of the folder: %+v", got)
	}
}

// TestBundleNames checks which names images have: those of the inputs, and digests for others with
// the same name.
func TestBundleNames(t *testing.T) {
	t.Parallel()
	up, folder := testkit.NewRegistry(t, testkit.Open), filepath.Join(t.TempDir(), "bundle")
	one, two := up.Push(t, "wt/0123456789ab/lab/tool:1", testkit.Image(t, "amd64", true)), up.Push(t, "wt/ba9876543210/lab/tool:1", testkit.Image(t, "amd64", true))
	digest := "sha256:" + strings.Repeat("1", 64)
	n := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/containers"):
			for i, target := range []string{one, two} {
				fmt.Fprintf(w, `{"index":%d,"response":{"requestId":"r%d","containerToken":"t","targetImage":"%s","containerImage":"quay.io/lab/tool:1","succeeded":true}}`+"\n", i, i, target)
			}
		default:
			n++
			_, _ = io.WriteString(w, `{"digests":["`+digest+`"]}`)
		}
	})
	in := `{"containerImage":"quay.io/lab/tool:1"}{"containerImage":"quay.io/lab/tool:1","containerConfig":{"env":["A=b"]}}`
	got := slipwayWith(t.Context(), in, nil, "bundle", "-", "--server", url, "--to", folder, "--lock", "", "-o", "name")
	lines := strings.Split(got.out, "\n")
	if got.code != 0 || len(lines) != 3 || lines[0] != "quay.io/lab/tool:1" || lines[1] != "quay.io/lab/tool@"+pulledDigest(t, two) {
		t.Errorf("got %+v", got)
	}
	host := servedNames(t, folder)
	if got, want := pulledDigest(t, host+"/lab/tool:1"), pulledDigest(t, one); got != want {
		t.Errorf("the tag is %s, want %s", got, want)
	}
	if got, want := pulledDigest(t, host+"/lab/tool@"+pulledDigest(t, two)), pulledDigest(t, two); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
}

// servedNames serves a bundle without processes.
func servedNames(t *testing.T, folder string) string {
	t.Helper()
	host := "127.0.0.1:" + testkit.FreePort(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan outcome, 1)
	go func() { done <- slipway(ctx, nil, "bundle", "serve", folder, "--listen", host) }()
	t.Cleanup(func() {
		stop()
		if got := <-done; got.code != 0 {
			t.Errorf("serve ended with %+v", got)
		}
	})
	testkit.Until(t, "the bundle is served", func() error {
		res, err := http.Get("http://" + host + "/v2/")
		if err == nil {
			err = res.Body.Close()
		}
		return err
	})
	return host
}

// TestBundleServes checks the responses of the registry.
func TestBundleServes(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	host := served(t, b.folder)
	images, err := b.index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	child := images.Manifests[0].Digest.String()
	image, err := b.index.Image(images.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer := digestOf(t, layers[0])
	other := "sha256:" + strings.Repeat("0", 64)
	for _, tc := range []struct {
		method, path, ranges string
		status               int
		want                 string
	}{
		{"GET", "/v2/", "", 200, "{}"},
		{"GET", "/v2/_catalog", "", 200, `"lab/both"`},
		{"GET", "/", "", 404, "NAME_UNKNOWN"},
		{"GET", "/v2/lab/both/tags/list", "", 200, `"tags":["v1"]`},
		{"GET", "/v2/lab/both/tags/list?n=0", "", 200, `"tags":[]`},
		{"GET", "/v2/lab/both/tags/list?n=x", "", 400, "PAGINATION_NUMBER_INVALID"},
		{"GET", "/v2/lab/both/tags/other", "", 404, "NAME_UNKNOWN"},
		{"GET", "/v2/lab/none/manifests/v1", "", 404, "NAME_UNKNOWN"},
		{"GET", "/v2/lab/both/manifests/v2", "", 404, "MANIFEST_UNKNOWN"},
		{"GET", "/v2/lab/both/manifests/" + child, "", 200, "schemaVersion"},
		{"HEAD", "/v2/lab/both/manifests/v1", "", 200, ""},
		{"HEAD", "/v2/lab/both/manifests/none", "", 404, ""},
		{"GET", "/v2/lab/both/blobs/" + layer, "bytes=0-1", 206, "\x1f\x8b"},
		{"GET", "/v2/lab/both/blobs/" + layer, "bytes=99999-", 416, ""},
		{"GET", "/v2/lab/both/blobs/" + other, "", 404, "BLOB_UNKNOWN"},
		{"GET", "/v2/lab/both/blobs/sha256:..%2f..%2findex.json", "", 404, ""},
		{"GET", "/v2/lab/both/blobs/index.json", "", 404, "BLOB_UNKNOWN"},
		{"GET", "/v2/lab/../../blobs/" + layer, "", 404, ""},
		{"GET", "/v2/lab/both/referrers/" + other, "", 200, `"manifests":[]`},
		{"GET", "/v2/lab/both/referrers/x", "", 400, "DIGEST_INVALID"},
		{"GET", "/v2/lab/both/referrers/" + digestOf(t, b.index) + "?artifactType=x", "", 200, `"manifests":[]`},
		{"POST", "/v2/lab/both/blobs/uploads/", "", 405, "UNSUPPORTED"},
		{"PUT", "/v2/lab/both/manifests/v1", "", 405, "UNSUPPORTED"},
		{"DELETE", "/v2/lab/both/manifests/v1", "", 405, "UNSUPPORTED"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+host+tc.path, http.NoBody)
		must(t, err)
		if tc.ranges != "" {
			req.Header.Set("Range", tc.ranges)
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		raw, err := io.ReadAll(res.Body)
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode != tc.status || !strings.Contains(string(raw), tc.want) {
			t.Errorf("%s %s returned %d %q, want %d %q", tc.method, tc.path, res.StatusCode, raw, tc.status, tc.want)
		}
	}
}

func TestBundleUsage(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	must(t, os.WriteFile(filepath.Join(files, "x"), nil, 0o600))
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no input":            {[]string{}, 2, "an argument is missing"},
		"no folder":           {[]string{"ubuntu:24.04"}, 2, "--to is missing"},
		"another folder":      {[]string{"ubuntu:24.04", "--to", files}, 1, "has files and is not a bundle"},
		"no such input":       {[]string{"missing.yml", "--to", filepath.Join(files, "a")}, 1, "reading the input: "},
		"have of others":      {[]string{"ubuntu:24.04", "--to", filepath.Join(files, "b"), "--have", "bundle_test.go"}, 1, "it is neither a bundle nor the output of slipway bundle list -o json"},
		"list of no bundle":   {[]string{"list", files}, 1, "is not a bundle"},
		"list of no folder":   {[]string{"list", filepath.Join(files, "none")}, 1, "opening the bundle"},
		"load to nowhere":     {[]string{"load", files}, 2, "--to is missing"},
		"serve without a key": {[]string{"serve", files, "--cert", "x"}, 2, "--cert and --key belong together"},
	} {
		if got := slipwayWith(t.Context(), "", map[string]string{"SLIPWAY_SERVER": "http://127.0.0.1:1"}, append([]string{"bundle"}, tc.args...)...); got.code != tc.code || !strings.Contains(got.errs, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
}
