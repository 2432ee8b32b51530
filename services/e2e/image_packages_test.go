package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
)

// TestImagePackages lists the packages of images that were built from locks, and checks that
// each is in the layer that is stated. Images without packages have no list.
func TestImagePackages(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	eachCopyShape(t, []string{up.Host}, bare(channel.URL), func(t *testing.T, p *program) {
		base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
		both := environment(base, "libcurl")
		both["containerPlatform"] = "linux/amd64,linux/arm64"
		// A layer that the request adds must not hide the environment's.
		both["containerConfig"] = map[string]any{"layers": []any{dataLayer(t, "opt/tool/run", "#!/bin/sh")}}
		built := p.order(both)
		if s := p.finished(t, built); s["succeeded"] != true {
			t.Fatalf("the build ended as %v", s)
		}
		image := text(built, "targetImage")
		type listed struct {
			Platforms []struct {
				Platform, Digest, Problem string
				Packages                  []struct{ Name, Version, Build, Channel, Subdir, Kind, Layer, Sha256 string }
			}
		}
		for query, want := range map[string][]string{"": {"linux/amd64", "linux/arm64"}, "?platform=linux/arm64": {"linux/arm64"}} {
			r := p.call(http.MethodPost, "/v1alpha1/inspect/packages"+query, map[string]any{"containerImage": image})
			var got listed
			if err := json.Unmarshal(r.body, &got); err != nil || r.status != http.StatusOK || len(got.Platforms) != len(want) {
				t.Fatalf("the response is %d %s", r.status, r.body)
			}
			for i, of := range got.Platforms {
				if of.Platform != want[i] || len(of.Packages) != 3 || of.Problem != "" {
					t.Fatalf("the packages are %+v", of)
				}
				for _, pkg := range of.Packages {
					files := p.call(http.MethodPost, "/v1alpha1/inspect/files?filter=conda-meta/"+pkg.Name+"-&platform="+url.QueryEscape(of.Platform)+"&layer="+url.QueryEscape(pkg.Layer), map[string]any{"containerImage": image})
					if meta := "opt/conda/conda-meta/" + pkg.Name + "-" + pkg.Version + "-" + pkg.Build + ".json"; !strings.Contains(string(files.body), meta) || pkg.Kind != "conda" || pkg.Channel == "" || pkg.Sha256 == "" {
						t.Errorf("%+v: the layer has %s", pkg, files.body)
					}
				}
			}
		}
		checkSBOM(t, p, image)
		r := p.call(http.MethodPost, "/v1alpha1/inspect/packages", map[string]any{"containerImage": base})
		if r.status != http.StatusNotFound || !strings.Contains(string(r.body), "neither a lock of Slipway nor records") {
			t.Errorf("an image without packages: %d %s", r.status, r.body)
		}
		for args, want := range map[string]string{"--platform linux/amd64": "libzlib  1.2.13   h31becfc_5", "-o text": "linux/arm64"} {
			out, errs, err := p.slipway(append([]string{"inspect", image, "--packages"}, strings.Fields(args)...)...)
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("slipway inspect --packages %s: %v %s\n%s", args, err, errs, out)
			}
		}
	})
}

// TestWebPageListsPackages shows the packages of an image on the page.
func TestWebPageListsPackages(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	built := p.order(environment(base, "libcurl"))
	if s := p.finished(t, built); s["succeeded"] != true {
		t.Fatalf("the build ended as %v", s)
	}
	b := openTab(t, browser, p.url+"/view/inspect?image="+url.QueryEscape(text(built, "targetImage")))
	b.await(button("Show the packages"))
	b.eval(button("Show the packages") + ".click()")
	b.await(`document.querySelector(".packages tbody")?.rows.length === 3`)
	b.await(`document.querySelector(".packages").innerText.includes("libzlib")`)
	b.eval("{ const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => { window.bill = text; }); return make.call(URL, blob); }; }")
	b.eval("{ const click = HTMLAnchorElement.prototype.click; HTMLAnchorElement.prototype.click = function () { window.saved = this.download; click.call(this); }; }")
	b.await(button("Download as SPDX"))
	b.eval(button("Download as SPDX") + ".click()")
	b.await(`JSON.parse(window.bill ?? "{}").packages?.some((p) => p.name === "libzlib")`)
	b.await(`window.saved === "builds.spdx.json"`) // without the token of the image's name
	b.good("packages of an image", p.url)
}

// checkSBOM checks that bills of materials have the packages of the lock, and no token.
func checkSBOM(t *testing.T, p *program, image string) {
	t.Helper()
	for format, version := range map[string]string{"spdx": "SPDX-2.3", "cyclonedx": "CycloneDX"} {
		r := p.call(http.MethodGet, "/v1alpha1/images/sbom?platform=linux/arm64&format="+format+"&image="+url.QueryEscape(image), nil)
		body := string(r.body)
		if r.status != http.StatusOK || !strings.Contains(body, version) || strings.Count(body, `"pkg:conda/`) != 3 || !strings.Contains(body, "subdir=linux-aarch64&type=") || !strings.Contains(r.header.Get("Content-Type"), format) {
			t.Errorf("%s: %d %v %s", format, r.status, r.header, body)
		}
		if token := strings.Split(image, "/")[2]; strings.Contains(body, token) {
			t.Errorf("%s has the token %s: %s", format, token, body)
		}
		out, errs, err := p.slipway("sbom", image, "--platform", "linux/arm64", "--format", format)
		if err != nil || strings.TrimSpace(out) != strings.TrimSpace(body) {
			t.Errorf("slipway sbom: %v %s\n%s", err, errs, out)
		}
	}
}

// TestPackagesOfOtherTools lists the packages of an image whose environments py-rattler has installed: they
// must be those that it reads itself.
func TestPackagesOfOtherTools(t *testing.T) {
	t.Parallel()
	oracle, err := judges()
	if err != nil {
		t.Skip("NOT COMPARED: py-rattler cannot be installed, so there are no genuine records:", err)
	}
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	type genuine struct{ Name, Version, Build, URL, SHA256, Prefix string }
	var want []genuine
	img := testkit.Image(t, "amd64", true)
	for prefix, specs := range map[string][]string{"usr/local": {"libcurl", "libffi"}, "opt/envs/lz4": {"lz4-c"}} {
		root := t.TempDir()
		query, err := json.Marshal(map[string]any{"Channel": channel.URL + "/lab", "Specs": specs, "Prefix": filepath.Join(root, prefix), "Cache": t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		install := func() ([]byte, error) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(oracle, "venv", "bin", "python"), "testdata/judge/install.py")
			cmd.Stdin, cmd.Env = bytes.NewReader(query), append(os.Environ(), "HOME="+t.TempDir())
			return cmd.Output()
		}
		out, err := install()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && !exit.Exited() { // it crashed once in some hundred runs
			t.Log("py-rattler is started again:", err)
			out, err = install()
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("py-rattler: %v %s", err, tail(string(exit.Stderr), 3000))
		}
		if err != nil {
			t.Fatal(err)
		}
		var list []genuine
		if err := json.Unmarshal(out, &list); err != nil || len(list) == 0 {
			t.Fatal(err, string(out))
		}
		for _, r := range list {
			r.Prefix = "/" + prefix
			want = append(want, r)
		}
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		if err := errors.Join(w.AddFS(os.DirFS(root)), w.Close()); err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, static.NewLayer(buf.Bytes(), types.OCIUncompressedLayer)); err != nil {
			t.Fatal(err)
		}
	}
	image := up.Push(t, "other/tool:1", img)
	r := p.call(http.MethodPost, "/v1alpha1/inspect/packages", map[string]any{"containerImage": image})
	var got struct {
		Platforms []struct {
			Source, Problem string
			Packages        []genuine
		}
	}
	if err := json.Unmarshal(r.body, &got); err != nil || r.status != http.StatusOK || len(got.Platforms) != 1 {
		t.Fatalf("the response is %d %s", r.status, r.body)
	}
	order := func(a, b genuine) int { return strings.Compare(a.Prefix+" "+a.Name, b.Prefix+" "+b.Name) }
	slices.SortFunc(want, order)
	if of := got.Platforms[0]; of.Source != "conda-meta" || of.Problem != "" || len(want) != 5 || !slices.Equal(of.Packages, want) {
		t.Errorf("the packages are %s, want %+v", r.body, want)
	}
	out, errs, err := p.slipway("inspect", image, "--packages")
	if err != nil || !strings.Contains(out, "PREFIX") || !strings.Contains(out, "/opt/envs/lz4") || !strings.Contains(out, "libffi") {
		t.Errorf("slipway inspect --packages: %v %s\n%s", err, errs, out)
	}
	// A layer above removes an environment, as a RUN instruction could.
	gz, _ := testkit.Tar(t, "opt/envs/.wh.lz4", "")
	if img, err = mutate.AppendLayers(img, static.NewLayer(gz, types.OCILayer)); err != nil {
		t.Fatal(err)
	}
	out, errs, err = p.slipway("inspect", up.Push(t, "other/tool:2", img), "--packages")
	if err != nil || strings.Contains(out, "lz4") || strings.Contains(out, "PREFIX") || !strings.Contains(out, "libffi") {
		t.Errorf("after a layer removed the environment: %v %s\n%s", err, errs, out)
	}
}
