package manual_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/manual"
)

// tree returns a command whose texts have everything that a page has to escape.
func tree() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Do things", Run: run, Long: "Use `tool make` for x.\n.hidden is no request\n\n  kept   as it is\n  'quoted'\n\nC:\\new ~ ^"}
	below := &cobra.Command{Use: "make THING", Short: "Make a `thing`", Run: run, Example: "  tool make --name 'a b'\n.x", GroupID: "g"}
	below.Flags().StringP("name", "n", "-d", "The `label` of it.")
	root.PersistentFlags().Bool("quiet", false, "Print nothing.")
	root.AddGroup(&cobra.Group{ID: "g", Title: "Things:"})
	root.AddCommand(below, &cobra.Command{Use: "secret", Hidden: true, Run: run})
	return root
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	if n, err := manual.Write(dir, tree(), "1.2.3", time.Unix(0, 0)); err != nil || n != 2 {
		t.Fatalf("%d pages, %v", n, err)
	}
	for name, parts := range map[string][]string{
		"tool.1": {
			`.TH "TOOL" 1 "1970\-01\-01" "slipway 1.2.3" "Slipway"`, "\ntool \\- Do things\n", "Use \\fBtool make\\fR for x.\n\\&.hidden is no request\n.PP\n.nf\n  kept   as it is\n",
			"  \\(aqquoted\\(aq\n", ".fi\nC:\\enew \\(ti \\(ha\n", ".SS \"Things\"\n.TP\n.BR tool\\-make (1)\nMake a \\fBthing\\fR\n", "\\fB\\-\\-quiet\\fR\n",
		},
		"tool-make.1": {".B tool make THING [flags]\n", "\\fB\\-n\\fR, \\fB\\-\\-name\\fR \\fIlabel\\fR\nThe label of it. (default: \\-d)\n", "\n\\&.x\n", ".BR tool (1)\n", "GLOBAL OPTIONS"},
	} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(raw), part) {
				t.Errorf("%s has no %q:\n%s", name, part, raw)
			}
		}
	}
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is not installed")
	}
	cmd := exec.CommandContext(t.Context(), "man", "--warnings", "-E", "UTF-8", "-l", filepath.Join(dir, "tool.1"))
	cmd.Env = append(os.Environ(), "MANPAGER=cat", "MANWIDTH=80", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kept   as it is") || !strings.Contains(string(out), `C:\new ~ ^`) || strings.Contains(string(out), "warning") {
		t.Errorf("man shows\n%s%v", out, err)
	}
}
