package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestImagePackages lists the packages of images that were built from locks, and checks that
// each is in the layer that is stated. Other images have no list.
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
		r := p.call(http.MethodPost, "/v1alpha1/inspect/packages", map[string]any{"containerImage": base})
		if r.status != http.StatusNotFound || !strings.Contains(string(r.body), "has no lock of Slipway") {
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
	b.good("packages of an image", p.url)
}
