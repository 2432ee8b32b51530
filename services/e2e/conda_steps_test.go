package e2e

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// worldOfUser is an image that steps can be run on, whose containers are no root's.
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

// digests are those of an image's layers, lowest first.
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

// stepped is a request for packages, one of which runs a script, with lines of its own.
func stepped(base string) map[string]any {
	body := environment(base, "libcurl", "link-scripts")
	body["packages"].(map[string]any)["condaOpts"].(map[string]any)["commands"] = []string{
		`RUN [ "$(busybox id -u)" = 1000 ] && [ -e /opt/conda/i-was-post-linked ]`, "USER 0", "RUN echo done > /last.txt", "USER 1000",
	}
	return body
}

// TestCondaImageWithSteps: what packages and the request run is run on the image of the
// packages, whose layers are those that an image without steps has.
func TestCondaImageWithSteps(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	eachBuildShape(t, []string{up.Host}, settings{"conda_channel_alias": channel.URL, "conda_solve_wait": "20s"}, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", worldOfUser(t))
		plain := p.order(environment(base, "libcurl"))
		answer := p.order(stepped(base))
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("it ended as %v:\n%s", s, p.logOf(answer))
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
				t.Errorf("%s is left in the image", path)
			}
		}
		cf, err := img.ConfigFile()
		if err != nil || cf.Config.User != "1000" || !strings.Contains(strings.Join(cf.Config.Env, "\n"), "PATH=/opt/conda/bin") || cf.Config.Labels["dev.slipway.conda.lock"] == "" {
			t.Errorf("its configuration is %+v, %v", cf.Config, err)
		}
		without, have := digests(t, pull(t, text(plain, "targetImage"), "amd64")), digests(t, img)
		for _, d := range without[:len(without)-1] { // the last one is the history of that environment
			if !slices.Contains(have, d) {
				t.Errorf("%s of %v is not among %v", d, without, have)
			}
		}
		if log := p.logOf(answer); !strings.Contains(log, "packages are there as layers") || !strings.Contains(log, "This is a post-link script that just ran") {
			t.Errorf("the log is %s", log)
		}
		again := p.order(stepped(base))
		if again["cached"] != true || again["succeeded"] != true || text(again, "buildId") != text(answer, "buildId") {
			t.Errorf("asked again it is %v", again)
		}
		p.nobodyPullsHalf(t, answer)
	})
}

// nobodyPullsHalf wants the image that steps were run on to have no name that a caller
// can pull.
func (p *program) nobodyPullsHalf(t *testing.T, answer map[string]any) {
	t.Helper()
	b := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).json(t)
	first, _, _ := strings.Cut(text(b, "containerFile"), "\n")
	_, digest, ok := strings.Cut(first, "@")
	if !ok || !strings.HasPrefix(first, "FROM ") || !strings.Contains(text(b, "containerFile"), "RUN echo done") {
		t.Fatalf("the build's record is %v", b)
	}
	at := v2(text(answer, "targetImage")) + "/manifests/"
	if r := request(t, http.MethodGet, at+digest, nil); r.status != http.StatusNotFound {
		t.Errorf("who asks for the image without what is run is answered %d", r.status)
	}
}

// TestCondaRefresh: a request stands for what it stood for, whatever its channel says
// meanwhile, until it is solved anew; and the same packages are the same image.
func TestCondaRefresh(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	before := repodataOf(t, map[string]map[string]any{
		"libcurl-8.4.0-h4e8248e_0.conda": {"name": "libcurl", "version": "8.4.0", "build": "h4e8248e_0"},
	})
	channel.answer("repodata.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(before) })
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	ask := func(refresh bool) map[string]any {
		t.Helper()
		body := environment(base, "libcurl")
		body["refresh"] = refresh
		answer := p.order(body)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("it ended as %v", s)
		}
		return answer
	}
	first := ask(false)
	if same := ask(true); text(same, "buildId") != text(first, "buildId") || same["cached"] != true {
		t.Errorf("with nothing new in the channel it is %v", same)
	}
	p.procs[0].kill()
	channel.answer("repodata.json", nil)
	if err := os.RemoveAll(filepath.Join(p.procs[0].env["data_dir"], "conda")); err != nil { // the list is younger than conda_refresh
		t.Fatal(err)
	}
	p.procs[0].start()
	if again := ask(false); text(again, "buildId") != text(first, "buildId") {
		t.Errorf("without refresh it is %v", again)
	}
	newer := ask(true)
	if text(newer, "buildId") == text(first, "buildId") || files(t, pull(t, text(newer, "targetImage"), "amd64"))["opt/conda/lib/libz.so.1.2.13"] == "" {
		t.Errorf("with refresh it is %v", newer)
	}
	if after := ask(false); text(after, "buildId") != text(newer, "buildId") {
		t.Errorf("afterwards it is %v", after)
	}
	if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": base, "refresh": true}); r.status != http.StatusBadRequest {
		t.Errorf("for an image it is answered %d %s", r.status, r.body)
	}
}
