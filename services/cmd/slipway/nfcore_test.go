package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNfCore checks the requests, the configurations, and what --check says before and after. The
// server names every image h/builds:e.
func TestNfCore(t *testing.T) { //nolint:paralleltest // the working directory
	t.Chdir(t.TempDir())
	b := &batchServer{digest: "sha256:" + strings.Repeat("1", 64)}
	url := serve(t, b.ServeHTTP)
	write := func(path, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("modules/nf-core/bwa/mem/main.nf", "// process NONE {\nprocess BWA_MEM {\n  script: 'bwa'\n}\n")
	write("modules/nf-core/bwa/mem/environment.yml", "dependencies: [bwa]\n")
	write("modules/nf-core/bwa/mem/tests/environment.yml", "dependencies: [other]\n")
	run := func(code int, args ...string) outcome {
		t.Helper()
		got := slipwayWith(t.Context(), "", nil, append([]string{"nf-core", "--server", url}, args...)...)
		if got.code != code {
			t.Fatalf("%v: %+v, want the exit code %d", args, got, code)
		}
		return got
	}
	if got := run(2); !strings.Contains(got.errs, "--freeze must name a repository") {
		t.Errorf("without --freeze: %+v", got)
	}
	if got := run(2, "--freeze", "h/builds", "--platform", "linux/amd64,linux/arm64"); !strings.Contains(got.errs, "for one platform") {
		t.Errorf("two platforms: %+v", got)
	}
	if got := run(1, "--freeze", "h/builds", "missing"); !strings.Contains(got.errs, "reading the folder missing") {
		t.Errorf("a folder that does not exist: %+v", got)
	}
	args := []string{"--freeze", "h/builds", "--configs", "conf", "--platform", "linux/arm64"}
	if got := run(1, append(args, "--check")...); !strings.Contains(got.errs, "the lock file has no image for it") || b.requests != nil {
		t.Errorf("the check before: %+v", got)
	}
	got := run(0, args...)
	if want := "DOCKER SINGULARITY PROCESS h/builds:e h/builds:e BWA_MEM"; strings.Join(strings.Fields(got.out), " ") != want {
		t.Errorf("printed %q, want %q", got.out, want)
	}
	packages, ok := b.requests[0]["packages"].(map[string]any)
	if !ok || b.requests[0]["format"] != "sif" || packages["environment"] != base64.StdEncoding.EncodeToString([]byte(batchLock)) {
		t.Errorf("the Singularity image was requested as %v", b.requests)
	}
	for _, name := range []string{"containers_docker_arm64.config", "containers_singularity_oras_arm64.config"} {
		raw, err := os.ReadFile(filepath.Join("conf", name))
		if want := "process { withName: 'BWA_MEM' { container = 'h/builds:e' } }\n"; err != nil || string(raw) != want {
			t.Errorf("%s is %q, %v; want %q", name, raw, err, want)
		}
	}
	b.requests = nil
	run(0, append(args, "--check")...)
	run(0, args...)
	if b.requests != nil {
		t.Errorf("requested again: %v", b.requests)
	}
	write("conf/containers_docker_arm64.config", "")
	if got := run(1, append(args, "--check")...); !strings.Contains(got.errs, "conf/containers_docker_arm64.config is not current") {
		t.Errorf("the check of a changed configuration: %+v", got)
	}
	// A repository can have links to files of the user.
	config := "conf/containers_docker_arm64.config"
	write("private", "private")
	must(t, os.Remove(config))
	must(t, os.Symlink("../private", config))
	run(0, args...)
	if raw, err := os.ReadFile("private"); err != nil || string(raw) != "private" {
		t.Errorf("the target of a link is %q, %v", raw, err)
	}
	if raw, err := os.ReadFile(config); err != nil || !strings.Contains(string(raw), "BWA_MEM") {
		t.Errorf("the configuration is %q, %v", raw, err)
	}
	write(config, "")
	write("modules/local/broken/main.nf", "process BROKEN {}\n")
	write("modules/local/broken/environment.yml", "name: broken\n")
	write("modules/local/none/environment.yml", "dependencies: [bwa]\n")
	write("modules/local/mem/main.nf", "process BWA_MEM {}\n")
	write("modules/local/mem/environment.yml", "dependencies: [bwa=2]\n")
	got = run(1, args...)
	for _, text := range []string{
		"build broken_1 failed", "modules/local/none/environment.yml: its module has no main.nf", "the process BWA_MEM is also in the folder of",
		"conf/containers_docker_arm64.config is not written, because it would lack containers", "3 modules cannot be read, or have no current containers",
	} {
		if !strings.Contains(got.errs, text) {
			t.Errorf("%q does not have %q", got.errs, text)
		}
	}
	if raw, err := os.ReadFile("conf/containers_docker_arm64.config"); err != nil || len(raw) != 0 {
		t.Errorf("the configuration was written after a failure: %q, %v", raw, err)
	}
}
