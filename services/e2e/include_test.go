package e2e

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
)

// holding returns an image for linux/amd64 with one layer for each pair of a path and its
// content.
func holding(t testing.TB, oci bool, files ...string) v1.Image {
	t.Helper()
	var img v1.Image
	for pair := range slices.Chunk(files, 2) {
		_, plain := testkit.Tar(t, pair[0], pair[1])
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if img == nil {
			img = base(t, l, oci)
			continue
		}
		mediaType := types.DockerLayer
		if oci {
			mediaType = types.OCILayer
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: mediaType}); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// behindArm returns an index with an arm64 image followed by img.
func behindArm(t testing.TB, img v1.Image) v1.ImageIndex {
	t.Helper()
	return mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: testkit.Image(t, "arm64", true), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
}

// TestIncludes adds the layers of two images to a third image, each from another registry, and
// pulls the result.
func TestIncludes(t *testing.T) {
	t.Parallel()
	up, one, two := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic), testkit.NewRegistry(t, testkit.Bearer)
	login := testkit.User + ":" + testkit.Password
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{one.Host: login, two.Host: login})}
	first := one.Push(t, "team/first:1", holding(t, true, "first.txt", "first", "who.txt", "first"))
	second := two.Push(t, "team/second:1", behindArm(t, holding(t, false, "who.txt", "second")))
	eachShape(t, []string{up.Host, one.Host, two.Host}, more, func(t *testing.T, p *program) {
		for kind, oci := range map[string]bool{"OCI": true, "Docker": false} {
			image := up.Push(t, "lib/base-"+strings.ToLower(kind)+":1", holding(t, oci, "base.txt", "base", "who.txt", "base"))
			body := map[string]any{
				"containerImage": image, "containerIncludes": []string{first, second},
				"containerConfig": map[string]any{"env": []string{"A=1"}, "layers": []any{dataLayer(t, "who.txt", "the request")}},
			}
			answer := p.order(body, "Authorization", "Bearer "+p.token)
			img := pull(t, text(answer, "targetImage"), "amd64")
			p.checkIncluded(t, img, first, second)
			for _, c := range copiers()[:1] {
				if testkit.Real() {
					dir := filepath.Join(t.TempDir(), "image")
					output(t, t.TempDir(), c.args(text(answer, "targetImage"), dir)...)
					index, err := layout.ImageIndexFromPath(dir)
					if err != nil {
						t.Fatal(err)
					}
					p.checkIncluded(t, forAMD64(t, index), first, second)
				}
			}
			described := p.call(http.MethodGet, "/v1alpha2/container/"+text(answer, "containerToken"), nil)
			if shown := string(described.body); strings.Count(shown, "@sha256:") < 2 || strings.Contains(shown, "includedFrom") || strings.Contains(shown, "identity") {
				t.Errorf("the description is %s", shown)
			}
			p.stealIncluded(t, image, text(answer, "targetImage"), img)
			given := p.order(map[string]any{"containerImage": image, "containerIncludes": []string{text(answer, "targetImage")}}, "Authorization", "Bearer "+p.user(t, "bob"+testkit.FreePort(t)))
			p.checkIncludedTwice(t, pull(t, text(given, "targetImage"), "amd64"))
		}
		stranger := map[string]any{"containerImage": up.Host + "/lib/base-oci:1", "containerIncludes": []string{first}}
		for who, header := range map[string][]string{"an anonymous caller": nil, "mallory": {"Authorization", "Bearer " + p.user(t, "mallory")}} {
			r := p.call(http.MethodPost, "/v1alpha2/container", stranger, header...)
			if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "containerIncludes[0]: "+first+" may not be read") {
				t.Errorf("%s, who cannot read an included image, got %d %s", who, r.status, r.body)
			}
		}
	})
}

// checkIncluded checks the files of overlapping layers and the configuration.
func (p *program) checkIncluded(t *testing.T, img v1.Image, includes ...string) {
	t.Helper()
	in := files(t, img)
	if in["base.txt"] != "base" || in["first.txt"] != "first" || in["who.txt"] != "second" {
		t.Errorf("the image contains %q", in)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, h := range cf.History {
		if image, ok := strings.CutPrefix(h.CreatedBy, "slipway: included "); ok {
			name, _, _ := strings.Cut(image, "@sha256:")
			said = append(said, name)
		}
	}
	tagless := func(image string) string { return image[:strings.LastIndexByte(image, ':')] }
	if want := []string{tagless(includes[0]), tagless(includes[0]), tagless(includes[1])}; !slices.Equal(said, want) {
		t.Errorf("the history names %q, want %q", said, want)
	}
	if !slices.Equal(cf.Config.Cmd, []string{"echo", "command"}) || !slices.Contains(cf.Config.Env, "A=1") || len(cf.RootFS.DiffIDs) != 6 {
		t.Errorf("the config is %+v, %d layers", cf.Config, len(cf.RootFS.DiffIDs))
	}
}

// checkIncludedTwice includes an image that itself includes others, by its issued name.
func (p *program) checkIncludedTwice(t *testing.T, img v1.Image) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if in := files(t, img); len(layers) != 8 || in["first.txt"] != "first" || in["who.txt"] != "second" {
		t.Errorf("included by its issued name, the image has %d layers and contains %q", len(layers), in)
	}
}

// stealIncluded requests the layers of included images with a token of another request.
func (p *program) stealIncluded(t *testing.T, image, target string, img v1.Image) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	mallory := text(p.order(map[string]any{"containerImage": image}, "Authorization", "Bearer "+p.user(t, "mallory"+testkit.FreePort(t))), "targetImage")
	for _, l := range layers[3:] {
		d, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if r := request(t, http.MethodGet, v2(target)+"/blobs/"+d.String(), nil); r.status != http.StatusOK {
			t.Errorf("%s returned %d %s", d, r.status, r.body)
		}
		if r := request(t, http.MethodGet, v2(mallory)+"/blobs/"+d.String(), nil); r.status != http.StatusNotFound {
			t.Errorf("%s returned %d for another token", d, r.status)
		}
	}
}

// TestIncludesAreReadByRepository uses a registry with two repositories. The login for one of
// them must not be sent to the other.
func TestIncludesAreReadByRepository(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	open := up.Push(t, "lib/base:1", holding(t, true, "base.txt", "base"))
	closed := up.Push(t, "team/closed:1", holding(t, true, "closed.txt", "closed"))
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(testkit.User+":"+testkit.Password))
	var mu sync.Mutex
	var wrong []string
	up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		auth := r.Header.Get("Authorization")
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/v2/team/closed/") && auth != want:
			w.Header().Set("Www-Authenticate", `Basic realm="closed"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		case strings.HasPrefix(path, "/v2/lib/") && auth != "":
			mu.Lock()
			defer mu.Unlock()
			wrong = append(wrong, path)
		}
		return false
	})
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{up.Host + "/team/closed": testkit.User + ":" + testkit.Password})}
	t.Cleanup(func() { // runs after the parallel shapes
		if len(wrong) > 0 {
			t.Errorf("the login was sent to %q", wrong)
		}
	})
	eachShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		for _, order := range [][]string{{open, closed}, {closed, open}} {
			answer := p.order(map[string]any{"containerImage": order[0], "containerIncludes": order[1:]}, "Authorization", "Bearer "+p.token)
			if in := files(t, pull(t, text(answer, "targetImage"), "amd64")); in["base.txt"] != "base" || in["closed.txt"] != "closed" {
				t.Errorf("%v contains %q", order, in)
			}
		}
	})
}

// TestFreezeIncludes freezes an image with the layers of two others, one from the same
// registry, and pulls it directly.
func TestFreezeIncludes(t *testing.T) {
	t.Parallel()
	own, far := testkit.NewRegistry(t, testkit.Basic), testkit.NewRegistry(t, testkit.Bearer)
	login := testkit.User + ":" + testkit.Password
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: login, far.Host: login})}
	image := own.Push(t, "team/base:1", holding(t, false, "base.txt", "base", "who.txt", "base"))
	first := far.Push(t, "team/first:1", holding(t, true, "first.txt", "first", "who.txt", "first"))
	second := own.Push(t, "team/second:1", behindArm(t, holding(t, true, "who.txt", "second")))
	eachCopyShape(t, []string{own.Host, far.Host}, more, func(t *testing.T, p *program) {
		body := frozen(image, own.Host+"/team/frozen"+testkit.FreePort(t), map[string]any{"env": []string{"A=1"}, "layers": []any{dataLayer(t, "who.txt", "the request")}})
		plain := text(p.order(body, "Authorization", "Bearer "+p.token), "targetImage")
		body["containerIncludes"] = []string{first, second}
		answer := p.order(body, "Authorization", "Bearer "+p.token)
		if s := p.finished(t, answer); s["succeeded"] != true || text(answer, "targetImage") == plain {
			t.Fatalf("%v ended as %v\n%s", answer, s, p.logOf(answer))
		}
		p.checkIncluded(t, ownImage(t, text(answer, "targetImage")), first, second)
		r := p.call(http.MethodPost, "/v1alpha2/container", body, "Authorization", "Bearer "+p.user(t, "mallory"))
		if r.status != http.StatusBadRequest {
			t.Errorf("a caller without access to the included images got %d %s", r.status, r.body)
		}
	})
}

// TestIncludeBuiltImage includes an image of the service's own repository by its issued name.
// Callers have no direct access to this repository.
func TestIncludeBuiltImage(t *testing.T) {
	t.Parallel()
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})}
	eachBuildShape(t, []string{up.Host, own.Host}, more, func(t *testing.T, p *program) {
		image := up.Push(t, "lib/base:1", holding(t, true, "base.txt", "base"))
		built := p.order(recipe("FROM "+up.Push(t, "base/busybox:1", busybox(t, true)), "RUN echo built > /hello.txt"), "Authorization", "Bearer "+p.token)
		if s := p.finished(t, built); s["succeeded"] != true {
			t.Fatalf("the build ended as %v\n%s", s, p.logOf(built))
		}
		includes := []string{text(built, "targetImage")}
		served := p.order(map[string]any{"containerImage": image, "containerIncludes": includes})
		if in := files(t, pull(t, text(served, "targetImage"), "amd64")); in["base.txt"] != "base" || in["hello.txt"] != "built\n" {
			t.Errorf("the served image contains %q and %q", in["base.txt"], in["hello.txt"])
		}
		body := frozen(image, own.Host+"/team/frozen"+testkit.FreePort(t), nil)
		body["containerIncludes"] = includes
		answer := p.order(body, "Authorization", "Bearer "+p.token)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the frozen build ended as %v\n%s", s, p.logOf(answer))
		}
		if in := files(t, ownImage(t, text(answer, "targetImage"))); in["base.txt"] != "base" || in["hello.txt"] != "built\n" {
			t.Errorf("the frozen image contains %q and %q", in["base.txt"], in["hello.txt"])
		}
	})
}
