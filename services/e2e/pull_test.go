package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"slipway.dev/services/internal/testkit"
)

func sha(b []byte) string {
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}

// layer describes a gzip-compressed tar as in a container request.
func layer(location string, gz, tar []byte) map[string]any {
	return map[string]any{"location": location, "gzipDigest": sha(gz), "gzipSize": len(gz), "tarDigest": sha(tar)}
}

func dataLayer(t testing.TB, path, content string) map[string]any {
	gz, tar := testkit.Tar(t, path, content)
	return layer("data:"+base64.StdEncoding.EncodeToString(gz), gz, tar)
}

// fileServer serves one layer over HTTP.
func fileServer(t testing.TB, suffix string, gz []byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", fixed, strings.NewReader(string(gz)))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/layer" + suffix
}

// pull fetches an image for one platform like a container engine, and verifies every digest and
// size.
func pull(t testing.TB, target, arch string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(target, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
	if err != nil {
		t.Fatalf("pulling %s: %v", target, err)
	}
	if err := validate.Image(img); err != nil {
		t.Fatalf("the image of %s is invalid: %v", target, err)
	}
	return img
}

// files returns the content of an image's files by path.
func files(t testing.TB, img v1.Image) map[string]string {
	t.Helper()
	return readTar(t, mutate.Extract(img))
}

func TestPullEveryKindOfImage(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	gz, tar := testkit.Tar(t, "from-url.txt", "by address")
	link := fileServer(t, ".tar.gz", gz)
	sources := []struct {
		name string
		what any
		docs types.MediaType
	}{
		{"oci-index", testkit.Index(t, true, "amd64", "arm64"), types.OCIManifestSchema1},
		{"docker-index", testkit.Index(t, false, "amd64", "arm64"), types.DockerManifestSchema2},
		{"oci-image", testkit.Image(t, "amd64", true), types.OCIManifestSchema1},
		{"docker-image", testkit.Image(t, "amd64", false), types.DockerManifestSchema2},
	}
	for _, s := range sources {
		up.Push(t, "lib/"+s.name+":v1", s.what)
	}
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		for _, s := range sources {
			t.Run(s.name, func(t *testing.T) {
				image := up.Host + "/lib/" + s.name + ":v1"
				plain := pull(t, p.submit(map[string]any{"containerImage": image}), "amd64")
				if got, want := digestOf(t, plain), digestOf(t, pull(t, image, "amd64")); got != want {
					t.Errorf("without additions the digest is %s; upstream it is %s", got, want)
				}
				got := pull(t, p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{
					"env": []string{"HOME=/data", "ADDED=1"}, "entrypoint": []string{"/new", "entry"}, "workingDir": "/data",
					"layers": []any{dataLayer(t, "from-request.txt", "by content"), layer(link, gz, tar)},
				}}), "amd64")
				checkAugmented(t, got, s.docs)
			})
		}
	})
}

func digestOf(t testing.TB, img interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func checkAugmented(t testing.TB, img v1.Image, docs types.MediaType) {
	t.Helper()
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		Entrypoint: []string{"/new", "entry"}, Cmd: []string{"run"}, WorkingDir: "/data",
		Env: []string{"PATH=/bin", "HOME=/data", "ADDED=1", "WAVE_ENTRY_CHAIN=/bin/entry"},
	}
	if diff := cmp.Diff(want, cf.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if mt, err := img.MediaType(); err != nil || mt != docs {
		t.Errorf("manifest type %s, %v; want %s", mt, err, docs)
	}
	got := files(t, img)
	if got["from-request.txt"] != "by content" || got["from-url.txt"] != "by address" {
		t.Errorf("the added files are missing: %v", got)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(cf.History) != len(layers) {
		t.Errorf("%d history entries for %d layers", len(cf.History), len(layers))
	}
}

func TestPullThroughRegistriesThatWantALogin(t *testing.T) {
	t.Parallel()
	basic, bearer := testkit.NewRegistry(t, testkit.Basic), testkit.NewRegistry(t, testkit.Bearer)
	for _, up := range []*testkit.Registry{basic, bearer} {
		up.Push(t, "private/tool:1", testkit.Index(t, true, "amd64", "arm64"))
	}
	auths := dockerConfig(t, map[string]string{basic.Host: testkit.User + ":" + testkit.Password, bearer.Host + "/private": testkit.User + ":" + testkit.Password})
	service := settings{"registry_auth_file": auths}
	users := settings{"admin_registry_auth_file": auths}
	t.Run("service credentials for anonymous callers", func(t *testing.T) {
		t.Parallel()
		eachShape(t, []string{basic.Host, bearer.Host}, service, func(t *testing.T, p *program) {
			for _, up := range []*testkit.Registry{basic, bearer} {
				pull(t, p.submit(map[string]any{"containerImage": up.Host + "/private/tool:1", "containerConfig": map[string]any{"env": []string{"A=b"}}}), "amd64")
			}
			// A user's pull must not use the service's credentials.
			r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": basic.Host + "/private/tool:1", "platformAccessToken": p.token})
			if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "may not be read") {
				t.Errorf("an identified caller without credentials of their own got %d %s", r.status, r.body)
			}
		})
	})
	t.Run("a user's own credentials", func(t *testing.T) {
		t.Parallel()
		eachShape(t, []string{basic.Host, bearer.Host}, users, func(t *testing.T, p *program) {
			body := map[string]any{"containerImage": basic.Host + "/private/tool:1"}
			if r := p.call(http.MethodPost, "/v1alpha2/container", body); r.status != http.StatusBadRequest {
				t.Errorf("an anonymous caller got %d %s", r.status, r.body)
			}
			body["towerAccessToken"] = p.token
			pull(t, p.submit(body), "amd64")
			// The caches are filled now, but other callers must not get the image.
			delete(body, "towerAccessToken")
			if r := p.call(http.MethodPost, "/v1alpha2/container", body); r.status != http.StatusBadRequest {
				t.Errorf("an anonymous caller got %d %s once the image was known", r.status, r.body)
			}
		})
	})
}

func TestPullByDigestWithConfiguration(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	index := testkit.Index(t, true, "amd64", "arm64")
	up.Push(t, "lib/tool:1", index)
	d, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		target := p.submit(map[string]any{"containerImage": up.Host + "/lib/tool@" + d.String(), "containerPlatform": "arm64", "containerConfig": map[string]any{"env": []string{"A=b"}}})
		if strings.HasSuffix(target, d.String()) || !strings.Contains(target, "@sha256:") {
			t.Fatalf("the name %s does not contain the augmented digest", target)
		}
		cf, err := pull(t, target, "arm64").ConfigFile()
		if err != nil || !slices.Contains(cf.Config.Env, "A=b") {
			t.Errorf("the variable is missing: %v, %v", cf.Config.Env, err)
		}
		cf, err = pull(t, target, "amd64").ConfigFile()
		if err != nil || slices.Contains(cf.Config.Env, "A=b") {
			t.Errorf("the other platform was changed: %v, %v", cf.Config.Env, err)
		}
	})
}

func TestLayerForOneArchitecture(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	up.Push(t, "lib/amd:1", testkit.Image(t, "amd64", true))
	up.Push(t, "lib/arm:1", testkit.Image(t, "arm64", true))
	gz, tar := testkit.Tar(t, "helper", "for arm")
	link := fileServer(t, "-arm64.tar.gz", gz)
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		config := map[string]any{"layers": []any{layer(link, gz, tar)}}
		if _, ok := files(t, pull(t, p.submit(map[string]any{"containerImage": up.Host + "/lib/arm:1", "containerConfig": config}), "arm64"))["helper"]; !ok {
			t.Error("the arm64 image lacks its layer")
		}
		if _, ok := files(t, pull(t, p.submit(map[string]any{"containerImage": up.Host + "/lib/amd:1", "containerConfig": config}), "amd64"))["helper"]; ok {
			t.Error("the amd64 image got the layer for arm64")
		}
	})
}

// dockerConfig writes a docker config.json; logins maps hosts to "user:password".
func dockerConfig(t testing.TB, logins map[string]string) string {
	t.Helper()
	auths := map[string]any{}
	for host, login := range logins {
		auths[host] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(login))}
	}
	raw, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "config.json", string(raw))
}

func TestSameRequestSameBytesOnEveryServer(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	up.Push(t, "lib/tool:1", testkit.Index(t, true, "amd64", "arm64"))
	body := map[string]any{"containerImage": up.Host + "/lib/tool:1", "containerConfig": map[string]any{
		"env": []string{"A=b"}, "cmd": []string{"x"}, "layers": []any{dataLayer(t, "f", "content")},
	}}
	want := ""
	for i := range 2 {
		p := oneProcess(t, common(t, []string{up.Host}, settings{"token_ttl": fmt.Sprintf("%dh", i+1)}))
		target := p.submit(body)
		got := everything(t, target)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("server %d returned other bytes", i)
		}
		// Without caches in memory and on disk, the stored request determines the bytes.
		p.procs[0].kill()
		p.procs[0].start()
		if got := everything(t, target); got != want {
			t.Error("after a kill -9 the bytes differ")
		}
	}
}

// everything returns the text of all documents of an image name.
func everything(t testing.TB, target string) string {
	t.Helper()
	base := v2(target)
	index := request(t, http.MethodGet, base+"/manifests/1", nil)
	var x struct{ Manifests []struct{ Digest string } }
	mustJSON(t, index.body, &x)
	all := []string{string(index.body)}
	for _, m := range x.Manifests {
		manifest := request(t, http.MethodGet, base+"/manifests/"+m.Digest, nil)
		var y struct{ Config struct{ Digest string } }
		mustJSON(t, manifest.body, &y)
		config := request(t, http.MethodGet, base+"/blobs/"+y.Config.Digest, nil)
		if sha(config.body) != y.Config.Digest || sha(manifest.body) != m.Digest {
			t.Errorf("content and digest differ: %d %s", config.status, manifest.body)
		}
		all = append(all, string(manifest.body), string(config.body))
	}
	return strings.Join(all, "\n")
}

func mustJSON(t testing.TB, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatalf("not JSON: %s", raw)
	}
}
