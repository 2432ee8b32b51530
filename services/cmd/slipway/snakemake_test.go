package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSnakemakeLate checks that a Snakefile which changes while the images are built is not
// overwritten, and that a name from the server cannot be a program.
func TestSnakemakeLate(t *testing.T) { //nolint:paralleltest // the working directory
	t.Chdir(t.TempDir())
	b := &batchServer{digest: "sha256:" + strings.Repeat("1", 64)}
	const late = "rule a:\n    conda: \"a.yml\"\n    threads: 4\n"
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		must(t, os.WriteFile("Snakefile", []byte(late), 0o600))
		b.ServeHTTP(w, r)
	})
	must(t, os.WriteFile("Snakefile", []byte("rule a:\n    conda: \"a.yml\"\n"), 0o600))
	must(t, os.WriteFile("a.yml", []byte("dependencies: [bwa]\n"), 0o600))
	got := slipwayWith(t.Context(), "", nil, "snakemake", "--server", url, "--freeze", "h/builds")
	if raw, err := os.ReadFile("Snakefile"); err != nil || string(raw) != late || got.code != 1 || !strings.Contains(got.errs, "it was changed while the images were built") {
		t.Errorf("got %+v, and the Snakefile is\n%s", got, raw)
	}
	if got := slipwayWith(t.Context(), "", nil, "snakemake", "--server", url, "--freeze", "h/builds"); got.code != 0 || !strings.Contains(got.out, "written") {
		t.Errorf("the second run: %+v", got)
	}
	must(t, os.Remove("slipway.lock"))
	if got := slipwayWith(t.Context(), "", nil, "snakemake", "--server", url, "--freeze", "h/team", "--replace"); got.code != 1 || !strings.Contains(got.errs, `"h/builds:e" is not the name of an image in h/team`) {
		t.Errorf("an image of another repository: %+v", got)
	}
}

// TestSnakemake checks the containers of a workflow whose rules are of all kinds, and what --check
// says before and after. The server names every image h/builds:e.
func TestSnakemake(t *testing.T) { //nolint:paralleltest // the working directory
	t.Chdir(t.TempDir())
	b := &batchServer{digest: "sha256:" + strings.Repeat("1", 64)}
	url := serve(t, b.ServeHTTP)
	const workflow = `include: MORE
rule new:
    conda: "envs/a.yml"
rule old:
    container: "docker://h/builds:0"
    conda: "envs/a.yml"
rule other:
    conda: "envs/a.yml"
    container: "docker://elsewhere/tool:1"
rule expression:
    conda: ENV
rule missing:
    conda: "envs/none.yml"
`
	must(t, os.Mkdir("envs", 0o755))
	must(t, os.WriteFile("envs/a.yml", []byte("dependencies: [bwa]\n"), 0o600))
	must(t, os.WriteFile("Snakefile", []byte(workflow), 0o640))
	run := func(code int, args ...string) outcome {
		t.Helper()
		got := slipwayWith(t.Context(), "", nil, append([]string{"snakemake", "--server", url}, args...)...)
		if got.code != code {
			t.Fatalf("%v: %+v, want the exit code %d", args, got, code)
		}
		return got
	}
	if got := run(2); !strings.Contains(got.errs, "--freeze must name a repository") {
		t.Errorf("without --freeze: %+v", got)
	}
	if got := run(2, "--freeze", "h/builds", "--lock", ""); !strings.Contains(got.errs, "--lock must name a file") {
		t.Errorf("without a lock file: %+v", got)
	}
	if got := run(1, "--freeze", "h/builds", "--check"); strings.Count(got.out, "failed") != 4 || b.requests != nil {
		t.Errorf("the check before: %+v", got)
	}
	got := run(1, "--freeze", "h/builds", "--jq", `.rules[] | [.rule, .line, .status, .container] | join(" ")`)
	want := []string{"new 2 written h/builds:e", "old 4 written h/builds:e", "other 7 kept elsewhere/tool:1", "expression 10 failed", "missing 12 failed"}
	for i, line := range strings.Split(strings.TrimSpace(got.out), "\n") {
		if strings.TrimSpace(strings.Trim(line, `"`)) != want[i] {
			t.Errorf("rule %d is %q, want %q", i, line, want[i])
		}
	}
	if len(b.requests) != 1 {
		t.Errorf("requested %v", b.requests)
	}
	raw, err := os.ReadFile("Snakefile")
	must(t, err)
	after := strings.Replace(workflow, "rule new:\n    conda: \"envs/a.yml\"\n", "rule new:\n    conda: \"envs/a.yml\"\n    container: \"docker://h/builds:e\"\n", 1)
	if after = strings.Replace(after, "h/builds:0", "h/builds:e", 1); string(raw) != after {
		t.Errorf("the Snakefile is\n%s", raw)
	}
	if info, err := os.Stat("Snakefile"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the Snakefile has the mode %v, %v", info.Mode(), err)
	}
	got = run(1, "--freeze", "h/builds", "--check")
	for _, text := range []string{
		"Snakefile:1: the include is an expression", "Snakefile:11: rule expression: its environment is an expression",
		"Snakefile:13: rule missing: reading the environment file envs/none.yml", "slipway: 3 of 6 rules and includes have no current container",
	} {
		if !strings.Contains(got.errs, text) {
			t.Errorf("the check printed %q, which does not have %q", got.errs, text)
		}
	}
	if got := run(1, "--freeze", "h/builds", "--replace"); !strings.Contains(got.out, "written  other") {
		t.Errorf("--replace: %+v", got)
	}
	if got := run(1, "--freeze", "h/other", "--check"); !strings.Contains(got.errs, "no container is in h/other") || strings.Count(got.out, "kept") != 3 {
		t.Errorf("the check with another repository: %+v", got)
	}
	lock, err := os.ReadFile("slipway.lock")
	must(t, err)
	for _, change := range [][2]string{{b.digest, ""}, {`"h/builds:e"`, `"elsewhere/tool:1"`}, {`"h/builds:e"`, `"h/builds:e\"; x"`}} {
		must(t, os.WriteFile("slipway.lock", []byte(strings.ReplaceAll(string(lock), change[0], change[1])), 0o600))
		if got := run(1, "--freeze", "h/builds", "--check"); strings.Count(got.errs, "the lock file has no image for it") != 3 {
			t.Errorf("the check with a lock file that has %q: %+v", change[1], got)
		}
	}
	must(t, os.WriteFile("slipway.lock", lock, 0o600))
	if got := run(2, "--freeze", "h/builds", "--check", "--update"); !strings.Contains(got.errs, "leave out --update") {
		t.Errorf("--check and --update: %+v", got)
	}
	must(t, os.WriteFile("envs/b.yml", []byte("dependencies: [bwa]\n"), 0o600)) // like a.yml
	must(t, os.WriteFile("b.smk", []byte("rule b:\n  conda: \"envs/b.yml\"\n"), 0o600))
	b.requests = nil
	if run(0, "--freeze", "h/builds", "b.smk"); b.requests != nil {
		t.Errorf("an equal environment was requested: %v", b.requests)
	}
	must(t, os.WriteFile("envs/a.yml", []byte("dependencies: [bwa=2]\n"), 0o600))
	run(1, "--freeze", "h/builds")
	run(0, "--freeze", "h/builds", "b.smk", "--check")
	must(t, os.WriteFile("envs/a.yml", []byte("dependencies: [bwa=3]\n"), 0o600))
	if got := run(1, "--freeze", "h/builds", "--check"); strings.Count(got.errs, "it has changed since") != 3 {
		t.Errorf("the check of a changed environment: %+v", got)
	}
	must(t, os.Remove("Snakefile"))
	if got := run(1, "--freeze", "h/builds"); !strings.Contains(got.errs, "no Snakefile here: it must be one of Snakefile, ") {
		t.Errorf("without a Snakefile: %+v", got)
	}
	must(t, os.WriteFile("a.smk", []byte("rule a:\n    shell: \"x\"\n"), 0o600))
	if got := run(1, "--freeze", "h/builds", filepath.Join(".", "a.smk")); !strings.Contains(got.errs, "no rule has a Conda environment") {
		t.Errorf("without environments: %+v", got)
	}
}
