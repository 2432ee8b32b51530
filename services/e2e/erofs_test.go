package e2e

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"slipway.dev/services/internal/testkit"
)

// TestErofs builds images with EROFS layers, also for several platforms, and runs them with genuine
// containerd and its EROFS snapshotter.
func TestErofs(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, greet(t, "amd64"), greet(t, "arm64"))
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	eachCopyShape(t, []string{up.Host}, unraced(bare(channel.URL)), func(t *testing.T, p *program) {
		for mode, mediaType := range map[string]string{"erofs": "application/vnd.erofs.layer.v1", "erofs+zstd": "application/vnd.erofs.layer.v1+zstd"} {
			for _, platform := range []string{"linux/amd64", "linux/amd64,linux/arm64"} {
				body := compressed(environment(base, "greet"), mode)
				body["containerPlatform"] = platform
				body["containerConfig"] = map[string]any{"env": []string{"ADDED=1"}}
				answer := p.order(body)
				if s := p.finished(t, answer); s["succeeded"] != true {
					t.Fatalf("%s %s: the build ended as %v:\n%s", mode, platform, s, p.logOf(answer))
				}
				isIndex := strings.Contains(platform, ",")
				checkErofs(t, text(answer, "targetImage"), mediaType, isIndex)
				options := []string{"--snapshotter", "erofs"}
				if isIndex { // containerd selects entries of an index only by their features
					options = append(options, "--platform", "linux(+erofs)/amd64")
				}
				runErofs(t, text(answer, "targetImage"), options)
			}
		}
		checkErofsRead(t, p, environment(base, "greet"))
	})
}

// checkErofs checks that the layers of the packages have a media type, and that engines without EROFS do
// not select the image.
func checkErofs(t *testing.T, image, mediaType string, isIndex bool) {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if isIndex {
		index, err := remote.Index(ref)
		if err != nil {
			t.Fatal(err)
		}
		m, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range m.Manifests {
			if !slices.Equal(d.Platform.OSFeatures, []string{"erofs"}) {
				t.Errorf("%s requires the features %v", d.Platform, d.Platform.OSFeatures)
			}
		}
	}
	img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64", OSFeatures: []string{"erofs"}}))
	if err != nil {
		t.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	of := 0
	for _, l := range m.Layers {
		if string(l.MediaType) == mediaType {
			of++
		}
	}
	cf, err := img.ConfigFile()
	if err != nil || of < 2 || len(cf.RootFS.DiffIDs) != len(m.Layers) || !slices.Equal(cf.OSFeatures, []string{"erofs"}) {
		t.Errorf("%d of %d layers are %s, the features are %v: %v", of, len(m.Layers), mediaType, cf.OSFeatures, err)
	}
}

// checkErofsRead checks that the service reads EROFS layers, for lists of files and packages and Singularity images, and
// that they have the files of the other layers.
func checkErofsRead(t *testing.T, p *program, plain map[string]any) {
	t.Helper()
	body := compressed(plain, "erofs+zstd")
	image := text(p.order(body), "targetImage")
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	layers := digestsOf(t, img)
	r := p.call(http.MethodPost, "/v1alpha1/inspect/files?layer="+url.QueryEscape(layers[len(layers)-2]), map[string]any{"containerImage": image})
	if r.status != http.StatusOK || !strings.Contains(string(r.body), `"opt/conda/share/greeting"`) {
		t.Errorf("the files of the layer are %d %s", r.status, r.body)
	}
	r = p.call(http.MethodPost, "/v1alpha1/inspect/packages", map[string]any{"containerImage": image})
	if r.status != http.StatusOK || !strings.Contains(string(r.body), `"greet"`) || !strings.Contains(string(r.body), layers[len(layers)-2]) {
		t.Errorf("the packages of the image are %d %s", r.status, r.body)
	}
	body["format"] = "sif"
	answer := p.order(body)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build of a Singularity image ended as %v\n%s", s, p.logOf(answer))
	}
	if _, err := exec.LookPath("unsquashfs"); err != nil {
		t.Log("NOT TESTED: the files of the Singularity image, since unsquashfs is missing")
		return
	}
	path, _ := pulledSif(t, text(answer, "targetImage"))
	tars := p.order(plain)
	if s := p.finished(t, tars); s["succeeded"] != true {
		t.Fatalf("the build with tars ended as %v\n%s", s, p.logOf(tars))
	}
	same, _ := packed(t, text(tars, "targetImage"))
	sameTree(t, unpackSif(t, path), mutate.Extract(same))
}

// runErofs pulls an image with genuine containerd, with options, and runs a program of its packages.
func runErofs(t *testing.T, image string, options []string) {
	t.Helper()
	programs := filepath.Join(os.Getenv("SLIPWAY_TEST_CLIENTS"), "bin")
	_, err := os.Stat(filepath.Join(programs, "containerd"))
	known, _ := os.ReadFile("/proc/filesystems")
	if err != nil || os.Getuid() != 0 || !strings.Contains(string(known), "\terofs\n") {
		t.Log("NOT TESTED with containerd: it needs root, a kernel with EROFS, and SLIPWAY_TEST_CLIENTS=DIR, where services/tools/clients.sh DIR has built it")
		return
	}
	c := newContainerd(t, programs, "[plugins.\"io.containerd.service.v1.diff-service\"]\n  default = [\"erofs\", \"walking\"]\n")
	c.ctr(t, append(append([]string{"image", "pull", "--plain-http"}, options...), image)...)
	c.greet(t, image, options...)
}
