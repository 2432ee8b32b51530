package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/docs"
)

// commandsOf returns the shell commands in sections of a document, in order.
func commandsOf(t *testing.T, file string, sections ...string) []string {
	t.Helper()
	raw, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, section := range sections {
		for _, block := range (docs.Page{Path: file, Text: string(raw)}).Section(t, section).Blocks() {
			if block.Language == "sh" {
				out = append(out, block.Text)
			}
		}
	}
	return out
}

// workFolder returns a folder with the programs in bin/.
func workFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"data", "home"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(binaries, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReadmeExamples runs the examples of the README unchanged with a new server, whose
// registry and channels have small images and packages of the same names. With real servers,
// Docker runs the images and BuildKit builds the Dockerfile; otherwise the images are pulled.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	examples := commandsOf(t, "README.md", "Three examples")
	if len(examples) != 3 {
		t.Fatalf("the README has %d examples", len(examples))
	}
	outputs := []string{"samtools 1.20\n", "built\n", "hello from a layer\n"}
	up, dir := testkit.NewRegistry(t, testkit.Open), workFolder(t)
	// Without docker, the test pulls the images that docker was called with.
	docker := `docker() { echo "$3" >> pulled; }`
	if testkit.Real() {
		needBuilds(t)
		d := startDocker(t)
		docker = "docker() { shift; command docker -H " + d.socket() + ` run --quiet --network=host "$@"; }`
		small, err := mutate.Config(busybox(t, true), v1.Config{Env: []string{"PATH=/usr/local/bin:/bin"}, Cmd: []string{"sh"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range []string{"library/alpine:3.20", "library/ubuntu:24.04"} {
			up.Push(t, image, small)
		}
	} else {
		examples, outputs = []string{examples[0], examples[2]}, nil
		for _, image := range []string{"library/alpine:3.20", "library/ubuntu:24.04"} {
			up.Push(t, image, testkit.Index(t, true, "amd64"))
		}
	}
	channel := madeChannel(t,
		madePackage{name: "samtools", version: "1.20", subdir: "linux-64", files: []packedFile{{path: "bin/samtools", content: "#!/bin/sh\necho samtools 1.20\n", mode: 0o755}}},
		madePackage{name: "procps-ng", version: "4.0", subdir: "linux-64", files: []packedFile{{path: "bin/ps", content: "#!/bin/sh\n", mode: 0o755}}},
	)
	p := oneProcess(t, settings{
		"egress_allow": "127.0.0.0/8", "insecure_registries": up.Host, "registry_mirrors": "docker.io=" + up.Host,
		"conda_channel_alias": channel.URL, "conda_solve_wait": "20s",
	})
	shell := exec.Command("sh", "-euc", docker+"\n"+strings.Join(examples, "\n"))
	shell.Dir = dir
	shell.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "SLIPWAY_SERVER=" + p.url}
	var log strings.Builder
	shell.Stderr = &log
	out, err := shell.Output()
	if err != nil || string(out) != strings.Join(outputs, "") {
		t.Fatalf("%v\n%s%s", err, out, log.String())
	}
	if testkit.Real() {
		return
	}
	pulled, err := os.ReadFile(filepath.Join(dir, "pulled"))
	if err != nil || strings.Count(string(pulled), "\n") != len(examples) {
		t.Fatalf("%v: docker was called with %q", err, pulled)
	}
	for image := range strings.Lines(string(pulled)) {
		pull(t, strings.TrimSpace(image), "amd64")
	}
}

// TestGuideAccounts runs the commands of the guide to accounts at a terminal, unchanged except
// for the registry, with a new server in one process.
func TestGuideAccounts(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	up.Push(t, "team/private:1", testkit.Index(t, true, "amd64"))
	commands := strings.Join(commandsOf(t, "docs/guide/accounts.md", "Set up a team", "Private images", "Access tokens"), "")
	for text, ours := range map[string]string{"quay.io": up.Host, "team+robot": testkit.User} {
		if !strings.Contains(commands, text) {
			t.Fatalf("the guide does not name %s:\n%s", text, commands)
		}
		commands = strings.ReplaceAll(commands, text, ours)
	}
	dir := workFolder(t)
	p := oneProcess(t, settings{
		"data_dir": filepath.Join(dir, "data"), "egress_allow": "127.0.0.0/8", "insecure_registries": up.Host, "platform_url": "http://localhost:9091",
	})
	// Without docker, the test pulls the image that docker was called with.
	shell := exec.Command("sh", "-euc", "docker() { echo \"$2\" > pulled; }\n"+commands)
	shell.Dir = dir
	shell.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "TERM=dumb", "SLIPWAY_SERVER=" + p.url}
	term := inTerminal(t, shell)
	term.answer("Password (it is not shown): ", testkit.Password)
	screen, err := term.end()
	if err != nil || !strings.Contains(screen, "as ada.") || !strings.Contains(screen, "ada@example.org") || strings.Contains(screen, testkit.Password) {
		t.Fatalf("the terminal shows %v\n%s", err, screen)
	}
	pulled, err := os.ReadFile(filepath.Join(dir, "pulled"))
	if err != nil {
		t.Fatal(err)
	}
	pull(t, strings.TrimSpace(string(pulled)), "amd64")
	for _, header := range [][]string{nil, {"Authorization", "Bearer " + readToken(t, dir)}} {
		r := p.call("POST", "/v1alpha2/container", map[string]any{"containerImage": up.Host + "/team/private:1"}, header...)
		if r.status != 400 {
			t.Errorf("another user got %d %s", r.status, r.body)
		}
	}
}

// readToken returns the token of the first user, who has no login.
func readToken(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "data", "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}
