package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"slipway.dev/services/internal/testkit"
)

const snakemakeVersion = "9.27.0"

const snakefile = `rule all:
    input: "samtools.txt", "greet.txt"

rule samtools:
    output: "samtools.txt"
    conda: "envs/samtools.yml"
    shell: "samtools > {output}"

include: "rules/greet.smk"
`

const greetRules = `# conda: "envs/none.yml"
rule greet:
    input: "samtools.txt"
    output: "greet.txt"
    conda:
        "../envs/greet.yml"  # with one package
    message: """
    conda: "not/a/directive.yml"
    """
    shell:
        """
        echo "$(cat {input}) and $(greet)" > {output}
        """
`

// TestSnakemake writes the containers of a workflow with `slipway snakemake`, and pulls them. With
// the Apptainer that services/tools/clients.sh builds, the genuine Snakemake runs the workflow in
// them.
func TestSnakemake(t *testing.T) {
	needBuilds(t)
	own := testkit.NewRegistry(t, testkit.Basic)
	l := newLaboratory(t, []string{own.Host}, nil, scriptPackage("greet", "1.0", `echo "hello"`), scriptPackage("greet", "2.0", `echo "hello again"`))
	dir := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	write("workflow/Snakefile", snakefile)
	write("workflow/rules/greet.smk", greetRules)
	write("workflow/envs/samtools.yml", "channels: [bioconda, conda-forge]\ndependencies: [samtools=1.20]\n")
	write("workflow/envs/greet.yml", "channels: [bioconda, conda-forge]\ndependencies: [greet=1.0]\n")
	l.storeLogin(t, own)
	repository := own.Host + "/lab/workflow"
	run := func(server string, more ...string) (out, errs string, err error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "slipway"), append([]string{"snakemake", "--freeze", repository}, more...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "SLIPWAY_SERVER="+server, "SLIPWAY_TOKEN="+l.token)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err = cmd.Run()
		return stdout.String(), stderr.String(), err
	}
	must := func(server string, more ...string) string {
		t.Helper()
		out, errs, err := run(server, more...)
		if err != nil {
			t.Fatalf("slipway snakemake %v: %v\n%s%s", more, err, out, errs)
		}
		return out
	}
	const nowhere = "http://127.0.0.1:1" // --check needs no server
	if _, errs, err := run(nowhere, "--check"); err == nil || !strings.Contains(errs, "the lock file has no image for it") {
		t.Fatalf("the check of a workflow without containers: %v\n%s", err, errs)
	}
	must(l.url)
	first := map[string]string{"workflow/Snakefile": read("workflow/Snakefile"), "workflow/rules/greet.smk": read("workflow/rules/greet.smk")}
	images := map[string]string{}
	for path, before := range map[string]string{"workflow/Snakefile": snakefile, "workflow/rules/greet.smk": greetRules} {
		var kept []string
		for line := range strings.Lines(first[path]) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), `container: "docker://`); ok {
				images[path] = strings.TrimSuffix(name, `"`)
			} else {
				kept = append(kept, line)
			}
		}
		if strings.Join(kept, "") != before || !strings.HasPrefix(images[path], repository+":") {
			t.Errorf("%s is now\n%s", path, first[path])
		}
	}
	for path, tool := range map[string]string{"workflow/Snakefile": "samtools", "workflow/rules/greet.smk": "greet"} {
		if files(t, pullWithLogin(t, images[path]))["opt/conda/bin/"+tool] == "" {
			t.Errorf("the image %s has no %s", images[path], tool)
		}
	}
	must(nowhere, "--check")
	if out := must(l.url); strings.Contains(out, "written") || strings.Count(out, "current") != 2 {
		t.Errorf("a second run printed\n%s", out)
	}
	for path, want := range first {
		if got := read(path); got != want {
			t.Errorf("a second run has changed %s:\n%s", path, got)
		}
	}
	runSnakemake(t, dir, "samtools 1.20 and hello\n")

	write("workflow/envs/greet.yml", "channels: [bioconda, conda-forge]\ndependencies: [greet=2.0]\n")
	if _, errs, err := run(nowhere, "--check"); err == nil || !strings.Contains(errs, "rules/greet.smk:2: rule greet") || strings.Contains(errs, "rule samtools") {
		t.Errorf("the check after a change of an environment: %v\n%s", err, errs)
	}
	if out := must(l.url); strings.Count(out, "written") != 1 || strings.Count(out, "current") != 1 {
		t.Errorf("after a change of an environment, the command printed\n%s", out)
	}
	if got := read("workflow/rules/greet.smk"); strings.Count(got, "container:") != 1 || strings.Contains(got, images["workflow/rules/greet.smk"]) {
		t.Errorf("after a change of its environment, greet.smk is\n%s", got)
	}
	runSnakemake(t, dir, "samtools 1.20 and hello again\n")
}

// runSnakemake runs a workflow in its containers, whose second rule must write want.
func runSnakemake(t *testing.T, dir, want string) {
	t.Helper()
	clients := os.Getenv("SLIPWAY_TEST_CLIENTS")
	if clients == "" {
		t.Log("NOT TESTED with Snakemake: run services/tools/clients.sh DIR and set SLIPWAY_TEST_CLIENTS=DIR")
		return
	}
	cmd := exec.CommandContext(t.Context(), pythonProgram(t, "snakemake", snakemakeVersion), "--cores", "1", "--sdm", "apptainer", "--forceall", "--apptainer-args=--no-privs")
	home := filepath.Join(dir, "home")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Join(clients, "bin")+":"+os.Getenv("PATH"), "HOME="+home, "APPTAINER_CACHEDIR="+home+"/apptainer", "APPTAINER_NOHTTPS=true",
		"APPTAINER_DOCKER_USERNAME="+testkit.User, "APPTAINER_DOCKER_PASSWORD="+testkit.Password)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("snakemake: %v\n%s", err, tail(string(out), 6000))
	}
	raw, err := os.ReadFile(filepath.Join(dir, "greet.txt"))
	if err != nil || string(raw) != want {
		t.Errorf("the workflow wrote %q, %v; want %q", raw, err, want)
	}
}

// storeLogin stores the login of testkit.Basic for a registry.
func (p *program) storeLogin(t *testing.T, own *testkit.Registry) {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(testkit.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, err := p.slipway("credentials", "add", "own", "--registry", own.Host, "-u", testkit.User, "--password-file", password); err != nil {
		t.Fatal(errs)
	}
}

// pullWithLogin pulls an image with the login of testkit.Basic.
func pullWithLogin(t *testing.T, image string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password}))
	if err != nil {
		t.Fatal(err)
	}
	return img
}
