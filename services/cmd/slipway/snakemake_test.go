package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
		"Snakefile:13: rule missing: reading an environment file", "slipway: 3 of 6 rules and includes have no current container",
	} {
		if !strings.Contains(got.errs, text) {
			t.Errorf("the check printed %q, which does not have %q", got.errs, text)
		}
	}
	if got := run(1, "--freeze", "h/builds", "--replace"); !strings.Contains(got.out, "written  other") {
		t.Errorf("--replace: %+v", got)
	}
	must(t, os.WriteFile("envs/a.yml", []byte("dependencies: [bwa=2]\n"), 0o600))
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
