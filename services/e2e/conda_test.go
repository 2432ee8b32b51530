package e2e

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"slipway.dev/services/internal/testkit"
)

// with adds a layer with executable files to an image.
func with(t testing.TB, img v1.Image, content map[string]string) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for path, text := range content {
		if err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.AppendLayers(img, l)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// applets returns links to busybox for the commands of the generated install script.
func applets() map[string]string {
	out := map[string]string{}
	for _, name := range []string{"mktemp", "tee", "grep", "mkdir", "dirname", "rm", "cp", "mv", "ls"} {
		out["bin/"+name] = "#!/bin/sh\nexec busybox " + name + " \"$@\"\n"
	}
	return out
}

// condaWorld returns a channel on loopback, and an image with a substitute for micromamba
// (testdata/conda/README.md).
func condaWorld(t testing.TB, up *testkit.Registry) (channel, mamba, base string) {
	t.Helper()
	script, err := os.ReadFile("testdata/conda/micromamba")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir("testdata/conda/channel")))
	t.Cleanup(server.Close)
	programs := applets()
	programs["bin/micromamba"], programs["tmp/.keep"] = string(script), ""
	base = up.Push(t, "base/busybox:1", busybox(t, true))
	return server.URL, up.Push(t, "tool/micromamba:2", with(t, busybox(t, true), programs)), base
}

func TestBuildConda(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		channel, mamba, base := condaWorld(t, up)
		packages := func(entries ...string) map[string]any {
			return map[string]any{"packages": map[string]any{
				"type": "CONDA", "entries": entries, "channels": []string{channel},
				"condaOpts": map[string]any{"mambaImage": mamba, "baseImage": base, "basePackages": "", "commands": []string{"RUN echo done > /last.txt"}},
			}}
		}
		answer := p.order(packages("zlib=1.2.11", "mock"))
		if name := text(answer, "targetImage"); !strings.Contains(name, ":zlib-1.2.11_mock--") {
			t.Errorf("the image name is %s", name)
		}
		img := pull(t, text(answer, "targetImage"), "amd64")
		content := files(t, img)
		if content["opt/conda/include/zlib.h"] == "" || content["last.txt"] != "done\n" {
			t.Errorf("zlib.h has %d bytes, last.txt %q", len(content["opt/conda/include/zlib.h"]), content["last.txt"])
		}
		cf, err := img.ConfigFile()
		if err != nil || !strings.Contains(strings.Join(cf.Config.Env, "\n"), "PATH=/opt/conda/bin") {
			t.Errorf("variables %v, %v", cf.Config.Env, err)
		}
		log := string(p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil).body)
		_, lock, _ := strings.Cut(log, ">> CONDA_LOCK_START")
		if !strings.Contains(lock, channel+"/linux-64/zlib-1.2.11-h7b6447c_3.tar.bz2") {
			t.Errorf("the log has no lock: %s", log)
		}
		lost := p.order(packages("nothing-of-this-name"))
		if s := p.finished(t, lost); !strings.HasPrefix(text(s, "reasonCode"), "solve") {
			t.Errorf("an environment without a solution ended as %v", s)
		}
		evil := p.call(http.MethodPost, "/v1alpha2/container", packages("zlib; touch /owned"))
		if evil.status != http.StatusBadRequest || !strings.Contains(string(evil.body), "packages.entries[0]") {
			t.Errorf("a spec with a command got %d %s", evil.status, evil.body)
		}
	})
}
