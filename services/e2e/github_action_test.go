package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const (
	githubAction = "../../deploy/integrations/github-action"
	actionlint   = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"
)

// TestGitHubAction runs the steps of the action with a release of this program: as documented, with a
// release that was changed, and with one that SHA256SUMS does not list.
func TestGitHubAction(t *testing.T) {
	t.Parallel()
	p := oneProcess(t, common(t, nil, nil))
	releases := t.TempDir()
	name := "slipway_0.1.0_linux_" + runtime.GOARCH
	pack := exec.CommandContext(t.Context(), "bash", "-c", `mkdir "$1" && cp "$2" "$1/" && tar -czf "$1.tar.gz" "$1"`, "pack", name, filepath.Join(binaries, "slipway"))
	pack.Dir = releases
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(releases, name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for folder, files := range map[string]map[string]string{
		"good":     {name + ".tar.gz": string(raw), "SHA256SUMS": fmt.Sprintf("%x  other.tar.gz\n%x  %s.tar.gz\n", sha256.Sum256(nil), sha256.Sum256(raw), name)},
		"changed":  {name + ".tar.gz": string(raw) + "x", "SHA256SUMS": fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(raw), name)},
		"unlisted": {name + ".tar.gz": string(raw), "SHA256SUMS": fmt.Sprintf("%x  other.tar.gz\n", sha256.Sum256(raw))},
		"missing":  {},
	} {
		for file, text := range files {
			path := filepath.Join(releases, folder, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(releases)))
	t.Cleanup(server.Close)
	inputs := func(folder, command string) map[string]string {
		return map[string]string{"releases": server.URL + "/" + folder + "/", "version": "0.1.0", "sha256": "", "server": p.url, "token": p.token, "command": command}
	}
	if out, err := runAction(t, inputs("good", "whoami -o json")); err != nil || !strings.Contains(out, `"userName"`) {
		t.Errorf("the action: %v\n%s", err, out)
	}
	if out, err := runAction(t, inputs("good", "")); err != nil || !strings.Contains(out, "slipway ") {
		t.Errorf("the action without a command: %v\n%s", err, out)
	}
	// The documented check needs neither a server nor a token.
	check := map[string]string{"releases": server.URL + "/good", "version": "0.1.0", "server": "", "token": "", "sha256": fmt.Sprintf("%x", sha256.Sum256(raw)), "command": "snakemake --freeze registry.example.org/lab/rnaseq\n--check"}
	if out, err := runAction(t, check); err == nil || !strings.Contains(out, "no Snakefile here") {
		t.Errorf("the documented command: %v\n%s", err, out)
	}
	wrong := inputs("good", "version")
	wrong["sha256"] = fmt.Sprintf("%x", sha256.Sum256(nil))
	if out, err := runAction(t, wrong); err == nil || !strings.Contains(out, "did NOT match") {
		t.Errorf("another SHA-256: %v\n%s", err, out)
	}
	plain := inputs("good", "version")
	plain["releases"] = strings.Replace(plain["releases"], "127.0.0.1", "localhost", 1)
	if out, err := runAction(t, plain); err == nil || !strings.Contains(strings.ToLower(out), "protocol") {
		t.Errorf("a release over http: %v\n%s", err, out)
	}
	for folder, want := range map[string]string{"changed": "did NOT match", "unlisted": "does not list", "missing": "404"} {
		if out, err := runAction(t, inputs(folder, "version")); err == nil || !strings.Contains(out, want) {
			t.Errorf("the action with the release %s: %v\n%s", folder, err, out)
		}
	}
}

// expression matches an expression of GitHub with an input; the steps have no others.
var expression = regexp.MustCompile(`\$\{\{ inputs\.(\w+) \}\}`)

// runAction runs the steps of the action like GitHub does.
func runAction(t *testing.T, inputs map[string]string) (out string, err error) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(githubAction, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]any `yaml:"inputs"`
		Runs   struct {
			Steps []struct {
				If    string            `yaml:"if"`
				Shell string            `yaml:"shell"`
				Run   string            `yaml:"run"`
				Env   map[string]string `yaml:"env"`
			} `yaml:"steps"`
		} `yaml:"runs"`
	}
	if err := yaml.Unmarshal(raw, &action); err != nil || len(action.Runs.Steps) == 0 || len(action.Inputs) != len(inputs) {
		t.Fatalf("the action is %+v, %v", action, err)
	}
	folder, err := filepath.Abs(githubAction)
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	paths := filepath.Join(temporary, "path")
	for _, step := range action.Runs.Steps {
		if step.If != "" && step.If != "${{ inputs.command != '' }}" || step.Shell != "bash" || expression.MatchString(step.Run) {
			t.Fatalf("the step is %+v", step)
		}
		if step.If != "" && inputs["command"] == "" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Dir = temporary
		added, _ := os.ReadFile(paths) // missing before the first step
		cmd.Env = []string{
			"PATH=" + strings.ReplaceAll(string(added), "\n", ":") + os.Getenv("PATH"), "HOME=" + temporary,
			"RUNNER_TEMP=" + temporary, "GITHUB_PATH=" + paths, "GITHUB_ACTION_PATH=" + folder,
		}
		for name, value := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+expression.ReplaceAllStringFunc(value, func(s string) string { return inputs[expression.FindStringSubmatch(s)[1]] }))
		}
		printed, err := cmd.CombinedOutput()
		if out += string(printed); err != nil {
			return out, err
		}
	}
	return out, nil
}

// TestGitHubWorkflows checks the documented workflows, and their inputs of the action, with actionlint.
func TestGitHubWorkflows(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/guide/github-actions.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, path := range []string{".git", ".github/workflows", ".github/actions"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, ".github/actions/slipway"), os.DirFS(githubAction)); err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) != 2 {
		t.Fatalf("there are %d workflows", len(blocks))
	}
	for _, b := range blocks {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(b[1])), []byte(b[2]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lint := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", "run", actionlint, "-no-color")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := lint(); err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
	wrong := strings.Replace(blocks[0][2], "version: 0.1.0", "edition: 0.1.0", 1)
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(blocks[0][1])), []byte(wrong), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := lint(); err == nil || !strings.Contains(out, `"edition"`) {
		t.Errorf("actionlint of a workflow with an unknown input: %v\n%s", err, out)
	}
}
