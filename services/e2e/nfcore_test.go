package e2e

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestNfCore writes the configurations of two modules with `slipway nf-core`. Both kinds of images must
// have the module's program, and the genuine Nextflow must read the names.
func TestNfCore(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	own := testkit.NewRegistry(t, testkit.Basic)
	l := newLaboratory(t, []string{own.Host}, nil, scriptPackage("greet", "1.0", `echo "hello"`))
	l.storeLogin(t, own)
	dir := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	tools := map[string]string{"GREET": "greet", "SAMTOOLS_VIEW": "samtools"}
	for process, tool := range tools {
		write("modules/"+tool+"/main.nf", "process "+process+" {\n    debug true\n    script: '"+tool+"'\n}\n")
		write("modules/"+tool+"/environment.yml", "channels: [bioconda, conda-forge]\ndependencies: ["+tool+"]\n")
	}
	repository := own.Host + "/lab/modules"
	run := func(server string, more ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "slipway"), append([]string{"nf-core", "--freeze", repository, "--configs", "conf", "--as-of", "2035-01-01"}, more...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "SLIPWAY_SERVER="+server, "SLIPWAY_TOKEN="+l.token)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("slipway nf-core %v: %v\n%s", more, err, out)
		}
	}
	run(l.url)
	run("http://127.0.0.1:1", "--check")
	names := map[string]map[string]string{}
	for _, kind := range []string{"docker", "singularity_oras"} {
		raw, err := os.ReadFile(filepath.Join(dir, "conf", "containers_"+kind+"_amd64.config"))
		if err != nil {
			t.Fatal(err)
		}
		names[kind] = map[string]string{}
		for line := range strings.Lines(string(raw)) {
			if part := strings.Split(line, "'"); len(part) == 5 {
				names[kind][part[1]] = part[3]
			}
		}
	}
	for process, tool := range tools {
		docker, singularity := names["docker"][process], names["singularity_oras"][process]
		if !strings.HasPrefix(docker, repository+":") || !strings.HasPrefix(singularity, "oras://"+repository+":") {
			t.Fatalf("the containers of %s are %q and %q", process, docker, singularity)
		}
		if files(t, pullWithLogin(t, docker))["opt/conda/bin/"+tool] == "" {
			t.Errorf("%s has no %s", docker, tool)
		}
		path, _ := pulledSif(t, singularity)
		if _, err := os.Stat(filepath.Join(unpackSif(t, path), "opt", "conda", "bin", tool)); err != nil {
			t.Errorf("%s: %v", singularity, err)
		}
	}
	if os.Getenv("SLIPWAY_TEST_CLIENTS") == "" {
		t.Log("NOT TESTED with Nextflow: run services/tools/clients.sh DIR and set SLIPWAY_TEST_CLIENTS=DIR")
		return
	}
	w := newDesk(t)
	w.dir = dir
	write("main.nf", "include { GREET } from './modules/greet'\ninclude { SAMTOOLS_VIEW } from './modules/samtools'\nworkflow { GREET(); SAMTOOLS_VIEW() }\n")
	for kind, engine := range map[string]string{"docker": "docker", "singularity_oras": "singularity"} {
		write(kind+".config", engine+".enabled = true\nincludeConfig 'conf/containers_"+kind+"_amd64.config'\n")
		if got := inspected(t, w.must(t, nil, "nextflow-"+nextflows[0], "-C", kind+".config", "inspect", "main.nf")); !maps.Equal(got, names[kind]) {
			t.Errorf("Nextflow with %s has the containers %v, want %v", engine, got, names[kind])
		}
	}
}
