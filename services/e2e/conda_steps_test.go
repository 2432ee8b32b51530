package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// worldOfUser returns a base image for build steps whose default user is not root.
func worldOfUser(t testing.TB) v1.Image {
	t.Helper()
	programs := applets()
	programs["bin/touch"] = "#!/bin/sh\nexec busybox touch \"$@\"\n"
	img := with(t, busybox(t, true), programs)
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := cf.DeepCopy().Config
	config.User = "1000"
	if img, err = mutate.Config(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// digests returns the digests of an image's layers, lowest first.
func digests(t testing.TB, img v1.Image) []string {
	t.Helper()
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range m.Layers {
		out = append(out, l.Digest.String())
	}
	return out
}

// stepped returns a request for packages, one with an install script, and with Dockerfile
// lines.
func stepped(base string) map[string]any {
	body := environment(base, "libcurl", "link-scripts")
	body["packages"].(map[string]any)["condaOpts"].(map[string]any)["commands"] = []string{
		`RUN [ "$(busybox id -u)" = 1000 ] && [ -e /opt/conda/i-was-post-linked ]`, "USER 0", "RUN echo done > /last.txt", "USER 1000",
	}
	return body
}

// TestCondaImageWithSteps runs the scripts of packages and the commands of the request on the
// image of the packages. Its layers must equal those of an image without steps.
func TestCondaImageWithSteps(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	eachBuildShape(t, []string{up.Host}, settings{"conda_channel_alias": channel.URL, "conda_solve_wait": "20s"}, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", worldOfUser(t))
		plain := p.order(environment(base, "libcurl"))
		answer := p.order(stepped(base))
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
		}
		img := pull(t, text(answer, "targetImage"), "amd64")
		content := files(t, img)
		for _, path := range []string{
			"opt/conda/lib/libz.so.1.2.13", "opt/conda/conda-meta/link-scripts-0.1.0-h4616a5c_0.json", "opt/conda/conda-meta/history", "opt/conda/i-was-post-linked", "last.txt",
		} {
			if _, ok := content[path]; !ok {
				t.Errorf("%s is not in the image", path)
			}
		}
		for path := range maps.Keys(content) {
			if strings.Contains(path, ".slipway") || strings.Contains(path, ".messages.txt") {
				t.Errorf("%s was not removed from the image", path)
			}
		}
		cf, err := img.ConfigFile()
		if err != nil || cf.Config.User != "1000" || !strings.Contains(strings.Join(cf.Config.Env, "\n"), "PATH=/opt/conda/bin") || cf.Config.Labels["dev.slipway.conda.lock"] == "" {
			t.Errorf("the configuration is %+v, %v", cf.Config, err)
		}
		if len(p.procs) == 1 { // the other shape has the same digest
			p.judgeBuild(t, answer, content, judged{channel: channel.URL + "/lab", more: "libffi"})
		}
		without, have := digests(t, pull(t, text(plain, "targetImage"), "amd64")), digests(t, img)
		for _, d := range without[:len(without)-1] { // the last layer is the history of the other environment
			if !slices.Contains(have, d) {
				t.Errorf("%s of %v is not among %v", d, without, have)
			}
		}
		if log := p.logOf(answer); !strings.Contains(log, "packages exist as layers") || !strings.Contains(log, "This is a post-link script that just ran") {
			t.Errorf("the log is %s", log)
		}
		again := p.order(stepped(base))
		if again["cached"] != true || again["succeeded"] != true || text(again, "buildId") != text(answer, "buildId") {
			t.Errorf("the repeated request returned %v", again)
		}
		p.checkIntermediateImage(t, answer)
	})
}

// checkIntermediateImage checks that the intermediate image has no name that a caller can pull.
func (p *program) checkIntermediateImage(t *testing.T, answer map[string]any) {
	t.Helper()
	b := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).json(t)
	first, _, _ := strings.Cut(text(b, "containerFile"), "\n")
	_, digest, ok := strings.Cut(first, "@")
	if !ok || !strings.HasPrefix(first, "FROM ") || !strings.Contains(text(b, "containerFile"), "RUN echo done") {
		t.Fatalf("the build's record is %v", b)
	}
	at := v2(text(answer, "targetImage")) + "/manifests/"
	if r := request(t, http.MethodGet, at+digest, nil); r.status != http.StatusNotFound {
		t.Errorf("pulling the intermediate image got %d", r.status)
	}
}
