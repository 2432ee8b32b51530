package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

const precommitVersion = "4.3.0"

// TestPreCommit commits a Snakemake workflow with the hook of docs/guide/pre-commit.md, which the
// genuine pre-commit runs. A commit that changes an environment but not its container must fail.
func TestPreCommit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("SKIPPED: pre-commit needs git: apt-get install git")
	}
	precommit := pythonProgram(t, "pre-commit", precommitVersion)
	raw, err := os.ReadFile("../../docs/guide/pre-commit.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(raw), "```yaml\n")
	config, _, _ = strings.Cut(config, "```")
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	dir := t.TempDir()
	options := "--freeze " + up.Host + "/lab/rnaseq --base-image " + base + " --base-packages ''"
	const documented = "--freeze registry.example.org/lab/rnaseq"
	if strings.Count(config, documented) != 1 {
		t.Fatalf("the documented configuration is\n%s", config)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(command string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+binaries+":"+filepath.Dir(precommit)+":"+os.Getenv("PATH"), "HOME="+dir, "PRE_COMMIT_HOME="+dir+"/.git/pre-commit",
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=ada", "GIT_COMMITTER_EMAIL=ada@example.org", "SLIPWAY_SERVER=http://127.0.0.1:1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(command string) {
		t.Helper()
		if out, err := run(command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	write(".pre-commit-config.yaml", strings.ReplaceAll(config, documented, options))
	write("Snakefile", "rule a:\n    conda: \"a.yml\"\n")
	write("a.yml", "channels: [lab]\ndependencies: [libffi]\n")
	update := "SLIPWAY_SERVER=" + p.url + " SLIPWAY_TOKEN=" + p.token + " slipway snakemake " + options
	must("git init -q && pre-commit install && " + update + " && git add . && git commit -qm first")
	write("a.yml", "channels: [lab]\ndependencies: [libcurl]\n")
	out, err := run("git commit -qam second")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(out, "Snakefile:1: rule a: the lock file has no image for it, or it has changed since") {
		t.Errorf("the commit of a changed environment: %v\n%s", err, out)
	}
	must(update + " && git commit -qam second && test $(git rev-list --count HEAD) = 2")
}
