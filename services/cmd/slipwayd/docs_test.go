package main

import (
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit/docs"
)

// TestDocsNameCommands checks every command of this program in a document, and every flag
// in the documents for operators that is mentioned without a command.
func TestDocsNameCommands(t *testing.T) {
	t.Parallel()
	found, whole := 0, 0
	for _, p := range docs.Pages(t, docs.Root(3)) {
		commands, err := p.Commands("slipwayd")
		if err != nil {
			t.Error(err)
		}
		for _, c := range commands {
			found++
			if c.IsWhole {
				whole++
			}
			if err := c.Check(command); err != nil {
				t.Errorf("%s: `%s`: %v", p.Path, c, err)
			}
		}
		if !strings.HasPrefix(p.Path, "docs/operate/") {
			continue
		}
		for _, s := range p.Spans() {
			if name, isFlag := strings.CutPrefix(s, "--"); isFlag && !docs.HasFlag(command(), strings.Fields(name)[0]) {
				t.Errorf("%s: no command has the flag --%s", p.Path, name)
			}
		}
	}
	if found < 60 || whole < 25 {
		t.Errorf("only %d commands were found, %d of them whole", found, whole)
	}
}
