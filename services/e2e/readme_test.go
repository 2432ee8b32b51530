package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// commandsOf answers the shell commands of a section of the README, in order.
func commandsOf(t *testing.T, section string) string {
	t.Helper()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(raw), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("the README has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var out strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		out.WriteString(block[1])
	}
	return out.String()
}

// TestReadmeAccounts types what the README says, letter for letter but for the
// registry, at a terminal beside a fresh server in one process.
func TestReadmeAccounts(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	up.Push(t, "team/private:1", testkit.Index(t, true, "amd64"))
	commands := commandsOf(t, "Accounts, tokens and private registries")
	for text, ours := range map[string]string{"quay.io": up.Host, "team+robot": testkit.User} {
		if !strings.Contains(commands, text) {
			t.Fatalf("the README does not name %s:\n%s", text, commands)
		}
		commands = strings.ReplaceAll(commands, text, ours)
	}
	dir := t.TempDir()
	for _, name := range []string{"data", "home"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(binaries, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	p := oneProcess(t, settings{
		"data_dir": filepath.Join(dir, "data"), "egress_allow": "127.0.0.0/8", "insecure_registries": up.Host, "platform_url": "http://localhost:9091",
	})
	// docker may not be here: the test pulls what it was told to.
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
			t.Errorf("another user is answered %d %s", r.status, r.body)
		}
	}
}

// readToken is the first user's, who has no login.
func readToken(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "data", "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}
