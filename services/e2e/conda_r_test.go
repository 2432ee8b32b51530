package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// rPackages returns R, some R packages, and the compilers that build other R packages from source.
func rPackages() []madePackage {
	var out []madePackage
	for _, p := range []struct{ name, version, build string }{
		{"r-base", "4.3.2", ""}, {"r-lattice", "0.21_8", "r43_0"}, {"r-lattice", "0.22_6", "r43_0"}, {"bioconductor-deseq2", "1.42.0", "r43_0"},
		{"c-compiler", "1", ""}, {"cxx-compiler", "1", ""}, {"fortran-compiler", "1", ""}, {"make", "4.4", ""}, {"pkg-config", "1", ""},
	} {
		made := madePackage{name: p.name, version: p.version, build: p.build, subdir: "linux-64", files: []packedFile{{path: "share/" + p.name, content: p.version, mode: 0o644}}}
		if p.build != "" {
			made.depends = []string{"r-base >=4.3,<4.4.0a0"}
		}
		out = append(out, made)
	}
	return out
}

// TestRPackages requests R packages by name and from a lock of renv, and a missing package.
func TestRPackages(t *testing.T) {
	t.Parallel()
	channel, up := madeChannel(t, rPackages()...), testkit.NewRegistry(t, testkit.Open)
	up.Push(t, "library/ubuntu:24.04", testkit.Index(t, true, "amd64"))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"registry_mirrors": "docker.io=" + up.Host, "conda_channel_alias": channel.URL, "conda_solve_wait": "20s",
		"cran_mirror": "http://127.0.0.1:1", "runc_path": "/nowhere/runc"}))
	packages := func(more map[string]any) map[string]any {
		more["type"], more["channels"], more["condaOpts"] = "CRAN", []string{"lab"}, map[string]any{"basePackages": ""}
		return map[string]any{"packages": more, "buildTemplate": "cran/installr:v1"}
	}
	renv := `{"R": {"Version": "4.3.1"}, "Packages": {"lattice": {"Package": "lattice", "Version": "0.21-8", "Source": "Repository"}, "DESeq2": {"Version": "1.42.0", "Source": "Bioconductor"}}}`
	for name, tc := range map[string]struct {
		more map[string]any
		want []string
	}{
		"entries":   {map[string]any{"entries": []string{"lattice", "bioc::DESeq2"}}, []string{"r-lattice-0.22_6-", "bioconductor-deseq2-1.42.0-", "r-base-4.3.2-"}},
		"renv.lock": {map[string]any{"environment": b64(renv)}, []string{"r-lattice-0.21_8-", "bioconductor-deseq2-1.42.0-", "r-base-4.3.2-"}},
	} {
		answer := p.order(packages(tc.more))
		r := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/lock?format=explicit-sha256", nil)
		for _, want := range tc.want {
			if !strings.Contains(string(r.body), "/"+want) {
				t.Errorf("%s: the lock has no %s: %s", name, want, r.body)
			}
		}
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("%s ended as %v:\n%s", name, s, p.logOf(answer))
		}
		p.judgeBuild(t, answer, files(t, pull(t, text(answer, "targetImage"), "amd64")), judged{channel: channel.URL + "/lab", more: "pkg-config"})
	}
	r := p.call(http.MethodPost, "/v1alpha2/container", packages(map[string]any{"entries": []string{"latice"}}))
	if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "r-latice") || !strings.Contains(string(r.body), "r-lattice") {
		t.Errorf("a package that does not exist: %d %s", r.status, r.body)
	}
	// The solver finds requirements without a Conda package: a missing name, and a version for
	// another R.
	source := packages(map[string]any{"entries": []string{"latice", "lattice=0.20", "bioc::DESeq2"}, "cranFallback": "source"})
	if err := within(time.Minute, func() error { // the worker reports its engines shortly after its start
		r := p.call(http.MethodPost, "/v1alpha2/container", source)
		if r.status != http.StatusNotImplemented || !strings.Contains(string(r.body), "because of packages.cranFallback, since latice, lattice must be built from source") {
			return fmt.Errorf("packages from source, without a worker that runs steps: %d %s", r.status, r.body)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
