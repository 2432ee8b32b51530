package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"slipway.dev/services/internal/testkit/docs"
)

func fresh() *cobra.Command { return command(os.Getenv) }

// TestDocsNameCommands checks that every command of this program in a document is valid.
func TestDocsNameCommands(t *testing.T) {
	t.Parallel()
	found, whole := 0, 0
	for _, p := range docs.Pages(t, docs.Root(3)) {
		commands, err := p.Commands("slipway")
		if err != nil {
			t.Error(err)
		}
		for _, c := range commands {
			found++
			if c.IsWhole {
				whole++
			}
			if err := c.Check(fresh); err != nil {
				t.Errorf("%s: `%s`: %v", p.Path, c, err)
			}
		}
	}
	if found < 120 || whole < 60 {
		t.Errorf("only %d commands were found, %d of them whole", found, whole)
	}
}

// TestDocsNameFlags checks the flags in the documents for users that are mentioned without
// a command.
func TestDocsNameFlags(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range docs.Pages(t, docs.Root(3)) {
		if !strings.HasPrefix(p.Path, "docs/guide/") && !strings.HasPrefix(p.Path, "docs/integrate/") && p.Path != "README.md" {
			continue
		}
		if p.Path == "docs/guide/nextflow.md" { // its flags are those of other programs
			continue
		}
		for _, s := range p.Spans() {
			name, isFlag := strings.CutPrefix(s, "--")
			if !isFlag {
				continue
			}
			found++
			if name, _, _ = strings.Cut(strings.ReplaceAll(name, "=", " "), " "); !docs.HasFlag(fresh(), name) {
				t.Errorf("%s: no command has the flag --%s", p.Path, name)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d flags were found", found)
	}
}

// TestDocsHaveEveryCommand checks that the table of commands is complete.
func TestDocsHaveEveryCommand(t *testing.T) {
	t.Parallel()
	for _, p := range docs.Pages(t, docs.Root(3)) {
		if p.Path != "docs/guide/command-line.md" {
			continue
		}
		table := p.Section(t, "Commands").Text
		for _, c := range fresh().Commands() {
			if !strings.Contains(table, "`slipway "+c.Name()+"`") {
				t.Errorf("%s has no row for `slipway %s`", p.Path, c.Name())
			}
		}
		return
	}
	t.Error("there is no page of the command line")
}
