package e2e

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"slipway.dev/services/internal/testkit"
)

// packed pulls an image with layers in any compression, and checks their digests.
func packed(t testing.TB, target string) (v1.Image, []v1.Descriptor) {
	t.Helper()
	ref, err := name.ParseReference(target, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
	if err != nil {
		t.Fatalf("pulling %s: %v", target, err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil || len(m.Layers) != len(cf.RootFS.DiffIDs) {
		t.Fatalf("%d layers of %d, %v", len(m.Layers), len(cf.RootFS.DiffIDs), err)
	}
	for i, l := range m.Layers {
		layer, err := img.LayerByDigest(l.Digest)
		if err != nil {
			t.Fatal(err)
		}
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		if id, _, err := v1.SHA256(content); err != nil || id != cf.RootFS.DiffIDs[i] {
			t.Errorf("layer %d is %s, %v, want %s", i, id, err, cf.RootFS.DiffIDs[i])
		}
	}
	return img, m.Layers
}

// count returns the number of layers whose media type has the suffix.
func count(layers []v1.Descriptor, suffix string) (n int) {
	for _, l := range layers {
		if strings.HasSuffix(string(l.MediaType), suffix) {
			n++
		}
	}
	return n
}

// compressed returns a request with a compression.
func compressed(body map[string]any, mode string, more ...any) map[string]any {
	out, c := maps.Clone(body), map[string]any{"mode": mode}
	for i := 0; i < len(more); i += 2 {
		c[more[i].(string)] = more[i+1]
	}
	out["buildCompression"] = c
	return out
}

// TestCondaCompression builds Conda images with zstd layers, and with layers whose files can be
// fetched one by one, without running containers, pulls them with additions, and reads them with skopeo.
func TestCondaCompression(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	eachCopyShape(t, []string{up.Host}, bare(channel.URL), func(t *testing.T, p *program) {
		body := environment(up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64")), "libcurl")
		body["containerConfig"] = map[string]any{"layers": []any{dataLayer(t, "added.txt", "of the request")}}
		answer := p.order(compressed(body, "zstd", "level", 19))
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
		}
		img, layers := packed(t, text(answer, "targetImage"))
		content := files(t, img)
		if n := count(layers, "+zstd"); n != 4 || content["opt/conda/lib/libz.so.1.2.13"] == "" || content["added.txt"] != "of the request" {
			t.Errorf("%d layers of %v are zstd", n, layers)
		}
		record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).json(t)
		if c, _ := record["buildCompression"].(map[string]any); text(c, "mode") != "zstd" || c["level"] != 19.0 {
			t.Errorf("the build record is %v", record)
		}
		if again := p.order(compressed(body, "zstd", "level", 19)); text(again, "buildId") != text(answer, "buildId") || again["cached"] != true {
			t.Errorf("the repeated request returned %v", again)
		}
		plain := p.order(body)
		if p.finished(t, plain); text(plain, "buildId") == text(answer, "buildId") {
			t.Error("without compression the build id is the same")
		}
		if _, layers := packed(t, text(plain, "targetImage")); count(layers, "+zstd") != 0 {
			t.Errorf("without compression the layers are %v", layers)
		}
		for mode, annotation := range map[string]string{"estargz": "containerd.io/snapshot/stargz/toc.digest", "zstd:chunked": "io.github.containers.zstd-chunked.manifest-checksum"} {
			answer := p.order(compressed(body, mode))
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("%s: the build ended as %v:\n%s", mode, s, p.logOf(answer))
			}
			img, _ := packed(t, text(answer, "targetImage"))
			m, err := img.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			indexed := 0
			for _, l := range m.Layers {
				if l.Annotations[annotation] != "" {
					indexed++
				}
			}
			if content := files(t, img); indexed != 4 || content["opt/conda/lib/libz.so.1.2.13"] == "" || content["added.txt"] != "of the request" {
				t.Errorf("%s: %d layers have a table of contents", mode, indexed)
			}
		}
		if skopeo, err := exec.LookPath("skopeo"); err == nil && testkit.Real() {
			dir := filepath.Join(t.TempDir(), "image")
			if out, err := exec.Command(skopeo, "--insecure-policy", "copy", "--src-tls-verify=false", "docker://"+text(answer, "targetImage"), "oci:"+dir+":copy").CombinedOutput(); err != nil {
				t.Errorf("skopeo: %v\n%s", err, out)
			}
		}
	})
}

// TestBuildCompression checks the requested compression of builds, also on base images with
// layers of packages, and converts such an image to a Singularity image.
func TestBuildCompression(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	eachBuildShape(t, []string{up.Host}, settings{"conda_channel_alias": channel.URL, "conda_solve_wait": "20s"}, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", worldOfUser(t))
		file := recipe("FROM "+base, "USER 0", "RUN echo built > /hello.txt")
		for name, c := range map[string]struct {
			body map[string]any
			want int // layers of gzip; the base image has two
		}{
			"a Dockerfile":        {compressed(file, "zstd", "level", "3"), 2},
			"base image included": {compressed(file, "zstd", "force", true), 0},
			"estargz":             {compressed(file, "estargz"), 3},
			"steps on packages":   {compressed(stepped(base), "zstd"), 2},
		} {
			answer := p.order(c.body)
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("%s ended as %v:\n%s", name, s, p.logOf(answer))
			}
			img, layers := packed(t, text(answer, "targetImage"))
			if n := count(layers, "gzip"); n != c.want || n+count(layers, "+zstd") != len(layers) {
				t.Errorf("%s: %d layers of %v are gzip, want %d", name, n, layers, c.want)
			}
			toc := layers[len(layers)-1].Annotations["containerd.io/snapshot/stargz/toc.digest"]
			if (toc != "") != (name == "estargz") || files(t, img)["hello.txt"] == "" && name != "steps on packages" {
				t.Errorf("%s: the layers are %v", name, layers)
			}
		}
		sif := compressed(file, "zstd", "level", 22, "force", true)
		sif["format"] = "sif"
		answer := p.order(sif)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the Singularity image ended as %v:\n%s", s, p.logOf(answer))
		}
		path, _ := pulledSif(t, text(answer, "targetImage"))
		delete(sif, "format")
		img, layers := packed(t, text(p.order(sif), "targetImage"))
		dir := unpackSif(t, path)
		sameTree(t, dir, mutate.Extract(img))
		if raw, err := os.ReadFile(filepath.Join(dir, "hello.txt")); string(raw) != "built\n" || count(layers, "+zstd") != 3 {
			t.Errorf("the image contains %q, %v; the image has %v", raw, err, layers)
		}
	})
}
