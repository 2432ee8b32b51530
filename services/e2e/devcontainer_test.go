package e2e

import (
	"crypto/sha256"
	"encoding/json"
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

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const (
	devcontainerFeature = "../../deploy/integrations/devcontainer-feature"
	jupyterExample      = "../../deploy/integrations/jupyter"
)

// TestDevcontainerFeature runs the script of the feature with a release of this program, and with releases that it must not install.
func TestDevcontainerFeature(t *testing.T) {
	t.Parallel()
	releases := t.TempDir()
	name := "slipway_0.1.0_linux_" + runtime.GOARCH
	pack := exec.CommandContext(t.Context(), "bash", "-ec", `
		mkdir -p "$1/completion" "$1/man"
		cp "$2" "$1/"
		for shell in bash zsh fish; do "$2" completion $shell >"$1/completion/slipway.$shell"; done
		"$2" man "$1/man" && gzip "$1"/man/*.1
		tar -czf "$1.tar.gz" "$1"`, "pack", name, filepath.Join(binaries, "slipway"))
	pack.Dir = releases
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(releases, name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(raw), name)
	for file, text := range map[string]string{
		"good/SHA256SUMS": sum, "good/" + name + ".tar.gz": string(raw),
		"changed/SHA256SUMS": sum, "changed/" + name + ".tar.gz": string(raw) + "x",
		"unlisted/SHA256SUMS": "", "unlisted/" + name + ".tar.gz": string(raw),
	} {
		path := filepath.Join(releases, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(releases)))
	t.Cleanup(server.Close)
	install := func(prefix string, options ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(devcontainerFeature, "install.sh"))
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + prefix, "PREFIX=" + prefix}, options...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	prefix := t.TempDir()
	if out, err := install(prefix, "RELEASES="+server.URL+"/good/", "VERSION=0.1.0", "SHA256="); err != nil || !strings.Contains(out, "slipway ") {
		t.Fatalf("the feature: %v\n%s", err, out)
	}
	for _, file := range []string{"bin/slipway", "share/bash-completion/completions/slipway", "share/zsh/site-functions/_slipway", "share/fish/vendor_completions.d/slipway.fish", "share/man/man1/slipway-conda.1.gz"} {
		if info, err := os.Stat(filepath.Join(prefix, filepath.FromSlash(file))); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	wrong := fmt.Sprintf("SHA256=%x", sha256.Sum256(nil))
	for _, c := range []struct {
		want    string
		options []string
	}{
		{"releases is missing", []string{"VERSION=0.1.0"}},
		{"version is missing", []string{"RELEASES=" + server.URL + "/good"}},
		{"digest of " + name + ".tar.gz is wrong", []string{"RELEASES=" + server.URL + "/changed", "VERSION=0.1.0"}},
		{"digest of " + name + ".tar.gz is wrong", []string{"RELEASES=" + server.URL + "/good", "VERSION=0.1.0", wrong}},
		{"does not list", []string{"RELEASES=" + server.URL + "/unlisted", "VERSION=0.1.0"}},
		{"404", []string{"RELEASES=" + server.URL + "/missing", "VERSION=0.1.0"}},
		{"rotocol", []string{"RELEASES=" + strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/good", "VERSION=0.1.0"}},
	} {
		prefix := t.TempDir()
		if out, err := install(prefix, c.options...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%q: %v\n%s", c.options, err, out)
		}
		if _, err := os.Stat(filepath.Join(prefix, "bin")); !os.IsNotExist(err) {
			t.Errorf("%q installs slipway", c.options)
		}
	}
}

// TestDevcontainerDocument checks that the options of the feature are those of its script and of the document.
func TestDevcontainerDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(devcontainerFeature, "devcontainer-feature.json"))
	if err != nil {
		t.Fatal(err)
	}
	var feature struct {
		ID, Version, Name string
		Options           map[string]struct{ Type, Default, Description string }
	}
	if err := json.Unmarshal(raw, &feature); err != nil || feature.ID != "slipway" || feature.Version == "" || len(feature.Options) != 3 {
		t.Fatalf("the feature is %+v, %v", feature, err)
	}
	script, err1 := os.ReadFile(filepath.Join(devcontainerFeature, "install.sh"))
	page, err2 := os.ReadFile("../../docs/guide/devcontainer.md")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for name, option := range feature.Options {
		if option.Type != "string" || option.Description == "" || !strings.Contains(string(script), strings.ToUpper(name)) || !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("the option %s is %+v", name, option)
		}
	}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) != 2 {
		t.Fatalf("there are %d examples", len(examples))
	}
	for _, example := range examples {
		var config struct {
			Image    string
			Features map[string]map[string]string
		}
		if err := json.Unmarshal([]byte(example[1]), &config); err != nil || config.Image == "" {
			t.Errorf("%s: %v", example[1], err)
		}
		for option := range config.Features["./slipway"] {
			if _, ok := feature.Options[option]; !ok {
				t.Errorf("the feature has no option %s", option)
			}
		}
	}
}

// TestBinderDockerfile checks what Binder requires of a Dockerfile: a user with the id 1000 who owns the files, a base image with a tag, and no
// other program to start.
func TestBinderDockerfile(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join(jupyterExample, "binder/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parsed, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil || len(stages) != 1 || !strings.Contains(stages[0].BaseName, ":") {
		t.Fatalf("the stages are %+v, %v", stages, err)
	}
	user, arguments := "", map[string]string{}
	for _, command := range stages[0].Commands {
		switch c := command.(type) {
		case *instructions.ArgCommand:
			for _, a := range c.Args {
				arguments[a.Key] = a.ValueString()
			}
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand, *instructions.CmdCommand:
			t.Errorf("it has %s", command.Name())
		}
	}
	if user != "${NB_UID}" || arguments["NB_UID"] != "1000" || arguments["NB_USER"] != "jovyan" {
		t.Errorf("the user is %s, with %v", user, arguments)
	}
	environment, err := os.ReadFile(filepath.Join(jupyterExample, "environment.yml"))
	for _, name := range []string{"jupyterlab", "notebook", "jupyterhub-singleuser"} {
		if err != nil || !strings.Contains(string(environment), "- "+name+"=") {
			t.Errorf("%s is not in the environment: %v", name, err)
		}
	}
}
