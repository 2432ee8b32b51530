package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// sifOf returns a request for a Singularity image without a repository.
func sifOf(body map[string]any, platform string) map[string]any {
	body["format"], body["containerPlatform"] = "sif", platform
	return body
}

// lacking returns the paths that are missing in a folder.
func lacking(dir string, paths ...string) (missing []string) {
	for _, path := range paths {
		if _, err := os.Lstat(filepath.Join(dir, path)); err != nil {
			missing = append(missing, path)
		}
	}
	return missing
}

// TestSifByToken builds Singularity images of packages and of an image without a repository and
// without running containers. The images are pulled like oras does, with the command line, and
// over HTTP.
func TestSifByToken(t *testing.T) {
	t.Parallel()
	needSif(t)
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	eachCopyShape(t, []string{up.Host}, bare(channel.URL), func(t *testing.T, p *program) {
		base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
		file := filepath.Join(t.TempDir(), "libcurl.sif")
		name, said, err := p.slipway("conda", "libcurl", "-c", "lab", "--base-image", base, "--base-packages", "", "--sif")
		if err != nil {
			t.Fatalf("slipway conda: %v\n%s", err, said)
		}
		if _, said, err := p.slipway("pull", name, "--sif", file); err != nil {
			t.Fatalf("slipway pull: %v\n%s", err, tail(said, 2000))
		}
		dir := unpackSif(t, file)
		if no := lacking(dir, "opt/conda/lib/libcurl.so.4", "opt/conda/lib/libz.so.1.2.13", "opt/conda/conda-meta/libcurl-8.4.0-h4e8248e_0.json"); no != nil {
			t.Errorf("the image lacks %q", no)
		}
		if env, err := os.ReadFile(filepath.Join(dir, ".singularity.d/env/10-docker2singularity.sh")); err != nil || !strings.Contains(string(env), "/opt/conda/bin") {
			t.Errorf("the variables are %s", env)
		}
		if !strings.HasPrefix(name, "oras://"+strings.TrimPrefix(p.url, "http://")+"/wt/") {
			t.Errorf("the image name is %s", name)
		}
		again := p.order(sifOf(environment(base, "libcurl"), "linux/amd64"))
		if again["cached"] != true || again["succeeded"] != true || text(again, "containerToken") == "" {
			t.Errorf("the repeated request returned %v", again)
		}
		path, digest := pulledSif(t, text(again, "targetImage"))
		p.downloadSif(t, again, path, digest)
		p.sifOfAdditions(t, base)
	})
}

// sifOfAdditions requests a Singularity image of an image with additions.
func (p *program) sifOfAdditions(t *testing.T, base string) {
	t.Helper()
	body := sifOf(map[string]any{"containerImage": base, "containerConfig": map[string]any{
		"env": []string{"GREETING=hello"}, "layers": []any{dataLayer(t, "added.txt", "of the request")},
	}}, "linux/amd64")
	answer := p.order(body)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
	}
	path, _ := pulledSif(t, text(answer, "targetImage"))
	dir := unpackSif(t, path)
	added, err := os.ReadFile(filepath.Join(dir, "added.txt"))
	env, err2 := os.ReadFile(filepath.Join(dir, ".singularity.d/env/10-docker2singularity.sh"))
	if err != nil || err2 != nil || string(added) != "of the request" || !strings.Contains(string(env), "GREETING='hello'") {
		t.Errorf("the image contains %q and %q: %v, %v", added, env, err, err2)
	}
	token := p.call(http.MethodDelete, "/v1alpha2/container/"+text(answer, "containerToken"), nil)
	if gone := p.call(http.MethodGet, "/v1alpha2/container/"+text(answer, "containerToken")+"/sif", nil); token.status != http.StatusNoContent || gone.status != http.StatusNotFound {
		t.Errorf("after revoking (%d) the download got %d %s", token.status, gone.status, gone.body)
	}
}

// TestSifOfOneSolve checks that an image for two platforms has one lock, and that the
// Singularity image for each platform is built from the same packages without fetching them
// again.
func TestSifOfOneSolve(t *testing.T) {
	t.Parallel()
	needSif(t)
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	both := environment(base, "libcurl", "libffi")
	both["containerPlatform"] = "linux/amd64,linux/arm64"
	pair := p.order(both)
	if s := p.finished(t, pair); s["succeeded"] != true {
		t.Fatalf("for two platforms the build ended as %v\n%s", s, p.logOf(pair))
	}
	locks := p.lockOf(t, pair)
	if len(locks) != 2 || locks[0]["platform"] != "linux/amd64" || locks[1]["platform"] != "linux/arm64" || len(locks[0]["packages"].([]any)) != 4 {
		t.Fatalf("the lock is %v", locks)
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		before := channel.fetches()
		answer := p.order(sifOf(environment(base, "libcurl", "libffi"), "linux/"+architecture))
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("%s: the build ended as %v\n%s", architecture, s, p.logOf(answer))
		}
		if n := channel.fetches() - before; n != 0 {
			t.Errorf("%s: %d packages were fetched again", architecture, n)
		}
		if got := p.lockOf(t, answer); len(got) != 1 || !reflect.DeepEqual(got[0]["packages"], locks[i]["packages"]) {
			t.Errorf("%s: the lock is %v", architecture, got)
		}
		path, _ := pulledSif(t, text(answer, "targetImage"))
		if no := lacking(unpackSifFor(t, path, architecture), "opt/conda/lib/libz.so.1.2.13", "opt/conda/lib/libffi.so", "opt/conda/conda-meta/history"); no != nil {
			t.Errorf("%s: the image lacks %q", architecture, no)
		}
	}
}

// TestSifOfPackages makes Singularity images of two environments that share packages. It checks that each
// package is compressed once, while its layer is made, and that the images are those of a server that
// makes them of finished layers.
func TestSifOfPackages(t *testing.T) {
	t.Parallel()
	needSif(t)
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	digests := map[string]bool{}
	for _, ahead := range []bool{true, false} {
		p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
		if !ahead { // make the layers first
			if s := p.finished(t, p.order(environment(base, "libcurl", "libffi"))); s["succeeded"] != true {
				t.Fatalf("the image ended as %v", s)
			}
		}
		var compressed []int
		for _, packages := range [][]string{{"libcurl", "libffi"}, {"libffi"}} {
			answer := p.order(sifOf(environment(base, packages...), "linux/amd64"))
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
			}
			compressed = append(compressed, strings.Count(p.logOf(answer), "Compressing the layer"))
			_, digest := pulledSif(t, text(answer, "targetImage"))
			digests[digest] = true
		}
		// The base image has two layers, and each image one of its own. The first environment has four packages.
		want := []int{3, 1}
		if !ahead {
			want = []int{7, 1}
		}
		if !slices.Equal(compressed, want) {
			t.Errorf("ahead %v: %v layers were compressed for the images, want %v", ahead, compressed, want)
		}
	}
	if len(digests) != 2 {
		t.Errorf("the servers made the images %v", digests)
	}
}

// lockOf returns the packages that a request resolved to, for each platform.
func (p *program) lockOf(t testing.TB, answer map[string]any) (out []map[string]any) {
	t.Helper()
	locks, _ := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/lock", nil).json(t)["locks"].([]any)
	for _, l := range locks {
		out = append(out, l.(map[string]any))
	}
	return out
}
