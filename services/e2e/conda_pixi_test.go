package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// pixiManifest is a manifest for packages of the test's channel.
const pixiManifest = `[workspace]
name = "tools"
channels = ["lab"]
platforms = ["linux-64", "osx-arm64"]

[tasks]
lint = "ruff"

[dependencies]
tool = "1.*"

[activation.env]
TOOL_DATA = "/data"

[feature.new.target.linux-64.dependencies]
lib = { version = ">=2", channel = "lab" }

[environments]
new = { features = ["new"], no-default-feature = true }
`

// TestPixiManifest requests the environments of a pixi.toml with the API and the command line.
// They must be solved like other packages, without build steps.
func TestPixiManifest(t *testing.T) {
	t.Parallel()
	tool := func(name, version string, depends ...string) madePackage {
		return madePackage{name: name, version: version, subdir: "linux-64", depends: depends, files: []packedFile{{path: "share/" + name, content: version, mode: 0o644}}}
	}
	channel, up := madeChannel(t, tool("tool", "1.4", "lib <2"), tool("tool", "2.0"), tool("lib", "1.9"), tool("lib", "2.1"), tool("spare", "1.0")), testkit.NewRegistry(t, testkit.Open)
	up.Push(t, "library/ubuntu:24.04", testkit.Index(t, true, "amd64"))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"registry_mirrors": "docker.io=" + up.Host, "conda_channel_alias": channel.URL, "conda_solve_wait": "20s"}))
	packages := func(environment string) map[string]any {
		return map[string]any{"buildTemplate": "conda/pixi:v1-fast", "packages": map[string]any{
			"type": "CONDA", "environment": b64(pixiManifest), "environmentName": environment, "condaOpts": map[string]any{"basePackages": ""},
		}}
	}
	for name, tc := range map[string]struct {
		request map[string]any
		want    []string
	}{
		"default": {packages(""), []string{"lib-1.9-h0_0.conda", "tool-1.4-h0_0.conda"}},
		"new":     {packages("new"), []string{"lib-2.1-h0_0.conda"}},
	} {
		answer := p.order(tc.request)
		r := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/lock", nil)
		var lock struct {
			Locks []struct{ Packages []struct{ FileName string } }
		}
		if err := json.Unmarshal(r.body, &lock); err != nil || len(lock.Locks) != 1 {
			t.Errorf("%s: %v %s", name, err, r.body)
			continue
		}
		var got []string
		for _, p := range lock.Locks[0].Packages {
			got = append(got, p.FileName)
		}
		if slices.Sort(got); !slices.Equal(got, tc.want) {
			t.Errorf("%s: the packages are %q, want %q", name, got, tc.want)
		}
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("%s ended as %v:\n%s", name, s, p.logOf(answer))
		}
		p.judgeBuild(t, answer, files(t, pull(t, text(answer, "targetImage"), "amd64")), judged{channel: channel.URL + "/lab", more: "spare"})
	}
	file := filepath.Join(t.TempDir(), "pixi.toml")
	if err := os.WriteFile(file, []byte(pixiManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, err := p.slipway("lock", "--file", file, "--environment", "new", "--sha256")
	if err != nil || !strings.Contains(out, "/linux-64/lib-2.1-h0_0.conda") || strings.Contains(out, "tool") {
		t.Errorf("slipway lock: %s %s %v", out, errs, err)
	}
	for want, request := range map[string]map[string]any{
		"is not for linux-aarch64; its platforms are linux-64, osx-arm64": {"condaFile": b64(pixiManifest), "containerPlatform": "linux/arm64"},
		`no environment \"gpu\"; it has default, new`:                     packages("gpu"),
	} {
		if r := p.call(http.MethodPost, "/v1alpha2/container", request); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), want) {
			t.Errorf("%d %s, want %q", r.status, r.body, want)
		}
	}
}
