package e2e

import (
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestPager checks that long output on a terminal is shown with the user's pager unless it is
// disabled, and never outside of a terminal.
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
		t.Errorf("the pager was not used: %s", s)
	}
	if s := shown("--no-pager"); strings.Contains(s, "page: ") || !strings.Contains(s, "amd64") {
		t.Errorf("the pager was used: %s", s)
	}
	cmd := u.command("inspect", image, "--server", p.url)
	cmd.Env = append(cmd.Env, "TERM=xterm", "PAGER=sed 's/^/page: /'")
	if out, err := cmd.Output(); err != nil || strings.Contains(string(out), "page: ") {
		t.Errorf("a script got %s, %v", out, err)
	}
}
