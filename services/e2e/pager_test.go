package e2e

import (
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestPager: on a terminal a long answer goes through the user's pager, unless they want
// none; elsewhere it never does.
func TestPager(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	u := newPerson(t)
	shown := func(more ...string) string {
		cmd := u.command(append([]string{"inspect", image, "--server", p.url}, more...)...)
		cmd.Env = append(cmd.Env, "TERM=xterm", "PAGER=sed 's/^/page: /'")
		screen, err := inTerminal(t, cmd).end()
		if err != nil {
			t.Fatalf("%v: %s", err, screen)
		}
		return screen
	}
	if s := shown(); !strings.HasPrefix(s, "page: ") {
		t.Errorf("the pager is left out: %s", s)
	}
	if s := shown("--no-pager"); strings.Contains(s, "page: ") || !strings.Contains(s, "amd64") {
		t.Errorf("the pager is not left out: %s", s)
	}
	cmd := u.command("inspect", image, "--server", p.url)
	cmd.Env = append(cmd.Env, "TERM=xterm", "PAGER=sed 's/^/page: /'")
	if out, err := cmd.Output(); err != nil || strings.Contains(string(out), "page: ") {
		t.Errorf("a script is shown %s, %v", out, err)
	}
}
